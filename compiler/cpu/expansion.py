"""`expanded`: an operator that ONNX defines by a function of other operators, as those.

Source: ONNX, "Functions" (docs/IR.md): names of a function are local, attributes may refer to those
of the call.
"""

from collections.abc import Sequence
from typing import Any

import onnx

from daedal.compiler.graph.ops.foreign import names_read

__all__ = ["expanded"]


def expanded(
    node: onnx.NodeProto, opset: int, types: Sequence[onnx.TypeProto | None], prefix: str
) -> list[onnx.NodeProto] | None:
    """The nodes of the operator's function, or None where it has none.

    Parameters
    ----------
    opset : version of the standard operator set.
    types : of the operands; what a function is may depend on them.
    prefix : begins the names of its inner tensors.
    """
    function = _function(node, opset, types)
    if function is None or any(
        attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
        for inner in function.node
        for attribute in inner.attribute
    ):
        return None
    names = {"": ""}
    names.update(dict.fromkeys(function.input, ""))
    names.update(zip(function.input, node.input, strict=False))
    results = dict(zip(function.output, node.output, strict=False))
    names.update({inner: name for inner, name in results.items() if name})
    for inner in function.node:
        for name in (*names_read(inner), *inner.output):
            names.setdefault(name, f"{prefix}.{name}")
    given = {item.name: item for item in node.attribute}
    for default in (*function.attribute_proto, *_defaults(node.op_type, opset)):
        given.setdefault(default.name, default)
    return [_called(inner, names, given) for inner in function.node]


def _function(
    node: onnx.NodeProto, opset: int, types: Sequence[onnx.TypeProto | None]
) -> onnx.FunctionProto | None:
    if node.domain not in ("", "ai.onnx"):
        return None
    try:
        # onnx's stubs lack what schemas say of functions.
        schema: Any = onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        versions = [item for item in schema.function_opset_versions if item <= opset]
        if not versions:
            return None
        return _parsed(schema.get_function_with_opset_version(max(versions)))
    if schema.has_context_dependent_function and None not in types:
        versions = [
            item for item in schema.context_dependent_function_opset_versions if item <= opset
        ]
        if not versions:
            return None
        given = [item.SerializeToString() for item in types if item is not None]
        return _parsed(
            schema.get_context_dependent_function_with_opset_version(
                max(versions), node.SerializeToString(), given
            )
        )
    return None


def _defaults(op_type: str, opset: int) -> list[onnx.AttributeProto]:
    """The default values of an operator's attributes."""
    attributes = onnx.defs.get_schema(op_type, opset, "").attributes
    found = []
    for name, attribute in attributes.items():
        default = onnx.AttributeProto()
        default.CopyFrom(attribute.default_value)
        if default.type:
            default.name = name
            found.append(default)
    return found


def _parsed(serialized: bytes) -> onnx.FunctionProto | None:
    function = onnx.FunctionProto()
    function.ParseFromString(serialized)
    return function if function.node else None


def _called(
    inner: onnx.NodeProto, names: dict[str, str], given: dict[str, onnx.AttributeProto]
) -> onnx.NodeProto:
    """A node of the function with the names and attributes of the call."""
    made = onnx.NodeProto()
    made.CopyFrom(inner)
    made.input[:] = [names[name] for name in inner.input]
    made.output[:] = [names[name] for name in inner.output]
    del made.attribute[:]
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            made.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            made.attribute.append(given[attribute.ref_attr_name])
            made.attribute[-1].name = attribute.name
    return made
