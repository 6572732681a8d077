"""Every test draws the same operands, whatever ran before it."""

import pytest

from tests.support import onnx_values


@pytest.fixture(autouse=True)
def _same_operands() -> None:
    onnx_values.restart()
