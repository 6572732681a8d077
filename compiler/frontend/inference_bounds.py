"""Keeps from ONNX's shape inference what makes it crash or grow without bound. Files are untrusted.

`check_attributes` refuses nodes that are not valid ONNX; `hide_steps` changes a copy of a model
that is only inferred. What they look for was found by tests/robustness/inference_fuzz.py: negative
`batch_dims` are read as the number of an axis, a Split makes a type for each of `num_outputs`, and
a Slice of a shape counts with 32 bits.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from daedal.common.errors import ModelError

__all__ = ["check_attributes", "hide_steps", "is_safe_step"]

_MOST_AXES = 1 << 10
"""Far more than any tensor has."""

_MOST_PARTS = 1 << 16
_MOST_STEP = 1 << 30

_AXES = ("axes", "axis", "batch_axis", "batch_dims", "perm", "time_axis")
"""Attributes that number or count axes."""

_LIMITS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(_AXES, (-_MOST_AXES, _MOST_AXES)),
    **{f"scan_{side}_axes": (-_MOST_AXES, _MOST_AXES) for side in ("input", "output")},
    "batch_dims": (0, _MOST_AXES),
    "num_outputs": (1, _MOST_PARTS),
}
"""By attribute: the smallest and the largest value."""


def check_attributes(node: onnx.NodeProto) -> None:
    """Raise ModelError for an attribute beyond its limits."""
    if node.domain not in ("", "ai.onnx"):
        return
    for item in node.attribute:
        low, high = _LIMITS.get(item.name, (0, 0))
        values = item.ints or [item.i]
        wrong = [value for value in values if not low <= value <= high] if high else []
        if wrong:
            raise ModelError(
                f"attribute {item.name} must be from {low} to {high}, not {wrong[0]} (node "
                f"{node.name or node.op_type!r}, operator {node.op_type}); repair the model"
            )


def is_safe_step(steps: npt.NDArray[np.generic]) -> bool:
    """Whether shape inference may see these steps of a Slice."""
    return steps.dtype.kind != "i" or bool((np.abs(steps.astype(np.float64)) <= _MOST_STEP).all())


def _is_safe(steps: onnx.TensorProto) -> bool:
    try:
        return is_safe_step(np.asarray(numpy_helper.to_array(steps)))
    except (KeyError, TypeError, ValueError):  # damaged
        return False


def hide_steps(graph: onnx.GraphProto) -> None:
    """Hide steps of Slices that are computed or large, in a graph and its subgraphs::

        Slice(x, starts, ends, axes, steps)  ->  Slice(x, starts, ends, axes, Identity(steps))

    Inference computes with constants, but not through an Identity.
    """
    _hide(graph, {})


def _hide(graph: onnx.GraphProto, outer: Mapping[str, onnx.TensorProto]) -> None:
    constants = {**outer, **{item.name: item for item in graph.initializer}}
    nodes: list[onnx.NodeProto] = []
    changed = False
    for node in graph.node:
        for item in node.attribute:
            if node.op_type == "Constant" and item.name == "value":
                constants[node.output[0]] = item.t
            for inner in (item.g, *item.graphs):
                if inner.node:
                    _hide(inner, constants)
        if node.op_type == "Slice" and len(node.input) > 4 and node.input[4]:
            known = constants.get(node.input[4])
            if known is None or not _is_safe(known):
                hidden = f"\0{node.input[4]}.{len(nodes)}"  # no model has such a name
                nodes.append(helper.make_node("Identity", [node.input[4]], [hidden]))
                node.input[4], changed = hidden, True
        nodes.append(node)
    if changed:
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
