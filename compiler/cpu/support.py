"""`processor_support`: what becomes of each ONNX operator in a model compiled for processors.

Derived from what the importer asks: the table of tensor expressions, and ONNX's functions.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import onnx
from onnx.reference.op_run import RuntimeImplementationError
from onnx.reference.ops._op_list import load_op

from daedal.common.errors import ModelError
from daedal.compiler.cpu.expansion import expanded
from daedal.compiler.cpu.program import STANDARD
from daedal.compiler.ops.onnx.table import LOWERINGS

__all__ = [
    "COMPILED",
    "EXPANDED",
    "FOLDED",
    "INTERPRETED",
    "NOT_RUN",
    "check_runs",
    "processor_support",
]

COMPILED, EXPANDED, FOLDED = "compiled", "expanded", "folded"
"""It has a tensor expression; ONNX defines it by operators that have; it is a constant."""
INTERPRETED, NOT_RUN = "interpreted", "not run"
"""ONNX's reference evaluator runs it, or lacks it, too."""

_REAL = "tensor(float)"
_SAMPLE_RANK = 3


@cache
def processor_support(name: str) -> str:
    """One of the words above for an operator of the standard domain."""
    if name in LOWERINGS:
        return COMPILED
    if name == "Constant":
        return FOLDED
    nodes = _function_nodes(name)
    if nodes is None or not all(_is_compiled(node) for node in nodes):
        return INTERPRETED if _is_implemented(name) else NOT_RUN
    return EXPANDED


def check_runs(nodes: Iterable[onnx.NodeProto]) -> None:
    """Raise ModelError for the first node whose operator neither is compiled nor interpreted."""
    for node in nodes:
        own = node.domain in STANDARD
        runs = (
            processor_support(str(node.op_type)) != NOT_RUN
            if own
            else _is_implemented(str(node.op_type), str(node.domain))
        )
        if not runs:
            name = node.op_type if own else f"{node.domain}.{node.op_type}"
            raise ModelError(
                f"operators must be compiled, or run by ONNX's reference evaluator, and {name} is "
                f"neither (node {node.name!r}); replace it in the model"
            )
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                check_runs(graph.node)


@cache
def _is_implemented(name: str, domain: str = "") -> bool:
    """Whether the reference evaluator has the operator."""
    try:
        load_op(domain, name, None if domain else onnx.defs.onnx_opset_version())
    except (RuntimeImplementationError, ValueError):
        return False
    return True


def _is_compiled(node: onnx.NodeProto) -> bool:
    return node.domain in STANDARD and processor_support(str(node.op_type)) not in (
        INTERPRETED,
        NOT_RUN,
    )


def _function_nodes(name: str) -> list[onnx.NodeProto] | None:
    """The nodes of an operator's newest function, of operands of the first types it allows."""
    opset = onnx.defs.onnx_opset_version()
    try:
        # onnx's stubs lack what schemas say of functions.
        schema: Any = onnx.defs.get_schema(name, opset, "")
    except onnx.defs.SchemaError:
        return None
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    types = [_sample_type(schema, item) for item in schema.inputs]
    inputs = [item.name for item in schema.inputs]
    node = onnx.helper.make_node(name, inputs, [item.name for item in schema.outputs])
    try:
        return expanded(node, opset, types, name)
    except Exception:  # functions that ONNX builds from a node raise many kinds
        return None


def _sample_type(schema: Any, item: Any) -> onnx.TypeProto | None:
    """Float32 where an operand may be, else the first tensor type it may have."""
    allowed = next(
        (kind.allowed_type_strs for kind in schema.type_constraints
         if kind.type_param_str == item.type_str),
        [item.type_str],
    )  # fmt: skip
    name = _REAL if _REAL in allowed else allowed[0]
    if not name.startswith("tensor("):
        return None
    kinds = {"float": "FLOAT", "double": "DOUBLE"}
    word = name.removeprefix("tensor(").removesuffix(")")
    kind = onnx.TensorProto.DataType.Value(kinds.get(word, word.upper()))
    return onnx.helper.make_tensor_type_proto(kind, [2] * _SAMPLE_RANK)
