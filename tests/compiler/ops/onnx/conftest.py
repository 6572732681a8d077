"""Every test draws the same operands, whatever ran before it."""

import zlib
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


@pytest.fixture(autouse=True)
def same_draws_in_every_order(request: pytest.FixtureRequest) -> None:
    """Seed the module's generator by the test's name: tests run in any order, and apart."""
    generator = getattr(request.module, "RNG", None)
    if generator is not None:
        seed = zlib.crc32(request.node.name.encode())
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
