"""Random operands of ONNX nodes, and nodes against results that a test computes itself."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from tests.support.onnx_operators import NEWEST, lowered_results

__all__ = ["check_values", "floats", "integers", "restart"]

SEED = 7

_generators = [np.random.default_rng(SEED)]


def restart() -> None:
    """Draw the same values again from here on."""
    _generators[0] = np.random.default_rng(SEED)


def floats(*shape: int, dtype: str = "float32") -> npt.NDArray[Any]:
    """Normal values, from `SEED`."""
    return np.asarray(_generators[0].normal(size=shape)).astype(dtype)


def integers(*shape: int, dtype: str = "int8", low: int = -9, high: int = 9) -> npt.NDArray[Any]:
    """Whole numbers from low to high, from `SEED`; unsigned ones from 0."""
    start = max(low, 0) if dtype.startswith("uint") else low
    return np.asarray(_generators[0].integers(start, high, size=shape, endpoint=True)).astype(dtype)


def check_values(
    op_type: str,
    feeds: Mapping[str, npt.NDArray[Any]],
    wanted: Sequence[npt.NDArray[Any]],
    *,
    constants: Collection[str] = (),
    opset: int = NEWEST,
    inputs: Sequence[str] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **attributes: Any,
) -> None:
    """Assert that a node's tensor expression gives `wanted`: where ONNX's evaluator is no measure.

    Parameters are those of `tests.support.onnx_operators.check_node`.
    """
    names = list(feeds) if inputs is None else list(inputs)
    results = [f"y{number}" for number in range(len(wanted))]
    proto = helper.make_node(op_type, names, results, **attributes)
    found = lowered_results(proto, opset, feeds, constants, wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(
            one, other, rtol=rtol if other.dtype.kind == "f" else 0, atol=atol
        )
