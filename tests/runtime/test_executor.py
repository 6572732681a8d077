"""What goes into a program: of the shape and of the type that its binding says, nothing else."""

import numpy as np
import pytest

from daedal.artifact.parts import Binding
from daedal.common.errors import ModelError
from daedal.runtime.executor import _to_program


@pytest.mark.parametrize(
    ("flip_sign", "wide", "ours", "other"),
    [
        (False, False, np.int8, np.uint8),
        (True, False, np.uint8, np.int8),
        (False, True, np.int16, np.int8),
    ],
)
def test_a_tensor_has_shape_and_type_of_its_binding(
    flip_sign: bool, wide: bool, ours: type, other: type
) -> None:
    binding = Binding("x", "t", (2, 3), flip_sign, wide)
    values = np.arange(6).reshape(2, 3)
    found = _to_program(binding, {"x": values.astype(ours)})
    assert (found == values - (128 if flip_sign else 0)).all() and found.dtype == np.int64
    for wrong in (values.astype(other), values.astype(ours)[:1], values.astype(other)[:1]):
        with pytest.raises(ModelError, match=rf"'x' must be {np.dtype(ours)} of shape \(2, 3\)"):
            _to_program(binding, {"x": wrong})
    with pytest.raises(ModelError, match=r"the tensor 'x' of shape \(2, 3\); it got nothing"):
        _to_program(binding, {})
