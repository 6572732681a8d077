"""Replaces operators whose shapes ONNX's inference gets wrong or does not find, in a copy that is
only inferred.

A pool in ceil_mode counts windows that begin in the pad behind the map before operator set 22, and
rounds as if `auto_pad` were not given; a transposed convolution with SAME pads adds
`output_padding` to a size that includes it; two norms get no shape. The forms here mean the same to
inference as the operator means by its definition. They are nodes of operator set 22; whole models,
whose operator set may be older, call each as a function.

Source: ONNX, MaxPool-22 and ConvTranspose-22; onnxruntime, pool_attributes.h and
conv_transpose_attributes.h.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from daedal.compiler.graph.window_extents import window_reach

__all__ = ["FORM_OPSET", "inferred_form", "replace_misread"]

FORM_OPSET = 22
"""The operator set of the forms."""

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_NORMS = ("GroupNormalization", "MeanVarianceNormalization")
"""Inference finds no shape of these, which is that of the operand."""

_KEEP_SHAPE = ("Cast", "DequantizeLinear", "Identity", "QuantizeLinear")
_STANDARD = ("", "ai.onnx")
_DOMAIN = "\0daedal"
"""Of the functions; no model has a domain of this name."""

_MOST_PAD = 1 << 31
"""More than any map has; a damaged model may ask for more than 64 bits hold."""

Shape = Sequence[int] | None


def inferred_form(node: onnx.NodeProto, shape_of: Callable[[str], Shape]) -> list[onnx.NodeProto]:
    """Nodes of `FORM_OPSET`, the last one with the shapes of `node`; none where `node` is right.

    Parameters
    ----------
    shape_of : the shape of a tensor, None if it is not known.
    """
    if node.domain in _STANDARD and node.op_type in _NORMS:
        return [helper.make_node("Identity", node.input[:1], node.output[:1])]
    if node.domain not in _STANDARD or node.op_type not in (*_POOLS, "ConvTranspose"):
        return []
    found = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    mode = found.get("auto_pad", b"NOTSET") or b"NOTSET"
    if node.op_type in _POOLS:
        changed = _pool(found, mode) if found.get("ceil_mode") else None
    elif found.get("output_shape"):
        return _of_given_shape(node)
    else:
        changed = _transposed(node, found, mode, shape_of)
    if changed is None:
        return []
    inputs, outputs = ([name for name in names if name] for names in (node.input, node.output))
    form = helper.make_node(node.op_type, inputs, outputs, node.name)
    form.attribute.extend(item for item in node.attribute if item.name not in changed)
    kept = {name: value for name, value in changed.items() if value is not None}
    form.attribute.extend(helper.make_attribute(name, value) for name, value in kept.items())
    return [form]


def _of_given_shape(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A transposed convolution with `output_shape`, of a map of one element: inference takes no
    shape that is less than the map."""
    form = onnx.NodeProto()
    form.CopyFrom(node)
    form.input[0] = f"{_DOMAIN}{node.input[0]}"
    return [helper.make_node("GlobalAveragePool", node.input[:1], form.input[:1]), form]


def _pool(found: Mapping[str, Any], mode: bytes) -> dict[str, Any] | None:
    """What changes in a pool with ceil_mode; a value of None is left out."""
    if mode == b"NOTSET":
        return {}
    if mode == b"VALID":
        return {"auto_pad": None, "pads": None}
    kernel = found.get("kernel_shape")
    if not kernel:
        return None
    # SAME pads: ``ceil(extent / stride)`` windows, as many as those of one element.
    ones = [1] * len(kernel)
    return dict.fromkeys(("auto_pad", "ceil_mode", "dilations", "pads")) | {"kernel_shape": ones}


def _transposed(
    node: onnx.NodeProto,
    found: Mapping[str, Any],
    mode: bytes,
    shape_of: Callable[[str], Shape],
) -> dict[str, Any] | None:
    """The pads of a transposed convolution with SAME pads: its result is ``stride`` times the map,
    or as large as without pads, whichever is less."""
    weights = shape_of(node.input[1]) if len(node.input) > 1 else None
    kernel = found.get("kernel_shape") or (weights[2:] if weights else None)
    if not kernel or mode not in (b"SAME_UPPER", b"SAME_LOWER"):
        return None
    ones, zeros = [1] * len(kernel), [0] * len(kernel)
    lists = [kernel, found.get("strides") or ones, found.get("dilations") or ones]
    lists.append(found.get("output_padding") or zeros)
    if any(len(item) != len(kernel) for item in lists):
        return None
    totals = [
        max(window_reach(extent, dilation) + extra - stride, 0)
        for extent, stride, dilation, extra in zip(*lists, strict=True)
    ]
    if max(totals) > _MOST_PAD:
        return None
    return {"auto_pad": None, "pads": [*totals, *zeros]}


def replace_misread(model: onnx.ModelProto) -> None:
    """Call the forms of all misread nodes of a model that is only inferred::

    MaxPool(x, ceil_mode=1)  ->  function_0(x), with function_0 = MaxPool-22(x, ceil_mode=1)
    """
    shapes = _constant_shapes(model.graph)
    functions: list[onnx.FunctionProto] = []
    _replace(model.graph, shapes.get, functions)
    if functions:
        model.functions.extend(functions)
        model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))


def _constant_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Shapes of constants, also of those that are dequantized."""
    shapes = {item.name: tuple(item.dims) for item in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            for item in node.attribute:
                if item.name == "value":
                    shapes[node.output[0]] = tuple(item.t.dims)
        elif node.op_type in _KEEP_SHAPE and node.input[0] in shapes:
            shapes[node.output[0]] = shapes[node.input[0]]
    return shapes


def _replace(
    graph: onnx.GraphProto,
    shape_of: Callable[[str], Shape],
    functions: list[onnx.FunctionProto],
) -> None:
    for node in graph.node:
        for item in node.attribute:
            for inner in (item.g, *item.graphs):
                if inner.node:
                    _replace(inner, shape_of, functions)
        form = inferred_form(node, shape_of)
        if form:
            functions.append(_function(node, form, f"function_{len(functions)}"))
            node.domain, node.op_type = _DOMAIN, functions[-1].name
            # Optional ones that are absent are the last.
            del node.input[len(functions[-1].input) :]
            del node.output[len(functions[-1].output) :]
            del node.attribute[:]


def _function(
    node: onnx.NodeProto, form: Sequence[onnx.NodeProto], name: str
) -> onnx.FunctionProto:
    """The form of a node as a function with the node's operands and results."""
    opset = helper.make_opsetid("", FORM_OPSET)
    operands, results = ([item for item in names if item] for names in (node.input, node.output))
    return helper.make_function(_DOMAIN, name, operands, results, form, [opset])
