"""Rows that are stored behind those of a state: plain as imported, and on blocked maps.

A state is a tensor that stays in the device's memory between launches. Its new rows are stored in
it, from `begin` along `axis`; all other bytes stay as they are.
"""

import numpy as np

from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import check_activation, check_params, requantize
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, whole
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["APPEND", "Q_APPEND", "append_region", "has_states"]


def append_region(state: TensorType, new: TensorType, attrs: Attrs) -> tuple[slice, ...]:
    """Where the new rows lie in the physical array of the state."""
    axis, begin = whole(attrs, "axis"), whole(attrs, "begin")
    count = new.shape[axis]
    if isinstance(state.layout, ActivationLayout) and axis == 1:
        block = state.layout.block
        begin, count = begin // block, -(-count // block)
    region = [slice(None)] * len(state.physical_shape)
    region[axis] = slice(begin, begin + count)
    return tuple(region)


def _infer(operands: Types, attrs: Attrs) -> TensorType:
    state, new = operands[:2]
    axis, begin = whole(attrs, "axis"), whole(attrs, "begin")
    assert state.dtype == new.dtype and state.layout == new.layout, f"{new} is no row of {state}"
    fits = (
        state.rank == new.rank
        and 0 <= axis < state.rank
        and 0 <= begin <= state.shape[axis] - new.shape[axis]
        and all(
            have == want or index == axis
            for index, (have, want) in enumerate(zip(new.shape, state.shape, strict=True))
        )
    )
    assert fits, f"{new} does not lie in {state} at {begin} of axis {axis}"
    return state


def _infer_q(operands: Types, attrs: Attrs) -> TensorType:
    state, new, params = operands
    check_activation(state)
    check_params(params, 1, new, channels=False)
    if isinstance(state.layout, ActivationLayout):
        block, axis = state.layout.block, whole(attrs, "axis")
        assert state.layout.batch == 1 and axis in (1, 2), f"{state} has no rows along {axis}"
        assert axis == 2 or whole(attrs, "begin") % block == 0, "new channels begin a block"
    return _infer(operands[:2], attrs)


def _evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """A state with new rows from `begin` of `axis`; `append_to_maps` makes it integer."""
    state, new = arrays[:2]
    result = np.array(state)
    result[append_region(types[0], types[1], attrs)] = new
    return result


def _evaluate_q(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """New pixels or blocks of channels, stored in a state; it shares the state's memory."""
    state, new, params = arrays
    unchanged = {"zero_point": 0, "low": -128, "high": 127}
    copied = requantize(new.astype(np.int64), params.reshape(-1, 3)[0], unchanged)
    return _evaluate([state, copied], types, attrs)


APPEND = define("append", ("state", "new"), {"axis": "int", "begin": "int"}, _infer, _evaluate)
Q_APPEND = define(
    "q_append",
    ("state", "new", "params"),
    {"axis": "int", "begin": "int"},
    _infer_q,
    _evaluate_q,
    targets=(ACCELERATOR,),
)


def has_states(graph: Graph) -> bool:
    """Whether rows are appended to states: then the graph computes a single token."""
    return any(node.op in (APPEND.name, Q_APPEND.name) for node in graph.nodes)
