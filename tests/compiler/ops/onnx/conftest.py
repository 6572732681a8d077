"""Every test draws the same operands, whatever ran before it."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.support import onnx_values


@pytest.fixture(autouse=True)
def _same_operands() -> Iterator[None]:
    """numpy's warnings are off: ONNX's evaluator divides by 0, and numpy's products of small finite
    matrices now and then warn of invalid values."""
    onnx_values.restart()
    with np.errstate(all="ignore"):
        yield
