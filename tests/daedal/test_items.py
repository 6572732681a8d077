"""Arrays of several items: how they are cut, and those that do not fit."""

import numpy as np
import pytest

from daedal.common.errors import ModelError
from daedal.items import split_items

SHAPES = {"image": (1, 2), "factor": ()}


def test_numbers_without_axes_are_given_alone_or_along_axis_0() -> None:
    (alone,) = split_items(SHAPES, {"image": np.ones((1, 2)), "factor": 3.0})
    assert alone["factor"].shape == () and alone["factor"] == 3
    first, second = split_items(SHAPES, {"image": np.arange(4).reshape(2, 2), "factor": [5, 7]})
    assert (first["factor"], second["factor"]) == (5, 7)
    assert first["image"].tolist() == [[0, 1]] and second["image"].tolist() == [[2, 3]]


def test_other_shapes_are_refused() -> None:
    image = np.ones((1, 2))
    for values, sentence in (
        ({"image": image, "factor": image}, r"'factor' must have shape \(\), or several"),
        ({"image": image, "factor": []}, r"'factor' must have shape \(\), or several"),
        ({"image": image, "factor": [1, 2]}, r"the same number of items, not \[1, 2\]"),
        ({"image": image[0], "factor": 1}, r"'image' must have shape \(1, 2\), or several"),
        (
            {"image": image},
            r"the model has 'image' of shape \(1, 2\), 'factor'",
        ),
        ({"image": image, "factor": 1, "x": 2}, "for each input, under its name, and 'x' is no"),
    ):
        with pytest.raises(ModelError, match=sentence):
            split_items(SHAPES, values)
