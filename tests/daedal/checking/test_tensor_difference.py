"""What differs between two tensors: counts, places and the first elements, item after item."""

import numpy as np
import pytest

from daedal.checking.tensor_difference import NUM_SHOWN, Element, compare, ranges_text


def test_equal_tensors() -> None:
    tensor = np.zeros((2, 3, 1, 4), np.int8)
    difference = compare(tensor, tensor.copy())
    assert (difference.num_elements, difference.num_different, difference.largest) == (24, 0, 0)
    assert difference.first == () and difference.places == ((), (), (), ())


def test_extremes_do_not_wrap() -> None:
    expected = np.array([[-128, 127]], np.int8)
    difference = compare(expected, expected[:, ::-1])
    assert difference.largest == 255
    assert difference.first == (Element((0, 0), -128, 127), Element((0, 1), 127, -128))


def test_items_joined_are_the_items_compared_at_once(rng: np.random.Generator) -> None:
    """In any grouping, with few and with many differences."""
    for share in (0.01, 0.3):
        expected = rng.integers(-128, 128, (6, 5, 3, 2))
        found = expected + rng.integers(-2, 3, expected.shape) * (
            rng.random(expected.shape) < share
        )
        whole = compare(expected, found)
        assert whole.num_different == np.count_nonzero(expected != found)
        assert len(whole.first) == min(NUM_SHOWN, whole.num_different)
        parts = [compare(expected[a:b], found[a:b]) for a, b in ((0, 1), (1, 4), (4, 6))]
        assert parts[0].joined(parts[1]).joined(parts[2]) == whole
        assert parts[0].joined(parts[1].joined(parts[2])) == whole


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2, 5, 7, 8], "0-2, 5, 7-8"),
        (range(0, 20, 2), "0, 2, 4, 6, 8, 10, ..."),
        (range(0, 12, 2), "0, 2, 4, 6, 8, 10"),
    ],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges_text(numbers) == text
