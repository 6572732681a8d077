"""ONNX operators without an equivalent in the graph language; they run unchanged on the host."""

from collections.abc import Sequence

import numpy as np
import onnx

from daedal.common.onnx_evaluator import evaluator_of
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Types,
    define,
    ints,
    require,
    text,
    whole,
)
from daedal.compiler.graph.types import TensorType

__all__ = ["FOREIGN", "copy_onnx", "evaluate_onnx", "is_random", "names_read"]


def is_random(op_type: str) -> bool:
    """Whether the results of an operator differ from run to run."""
    return "Random" in op_type or op_type in ("Bernoulli", "Multinomial")


def names_read(node: onnx.NodeProto) -> list[str]:
    """Tensors that a node reads, once each: its operands and those captured by its subgraphs."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            names += _captured(graph)
    return list(dict.fromkeys(names))


def _captured(graph: onnx.GraphProto) -> list[str]:
    """Tensors that a subgraph reads but does not define."""
    own = {item.name for item in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    read = [name for node in graph.node for name in names_read(node)]
    read += [item.name for item in graph.output]
    return [name for name in read if name not in own]


def evaluate_onnx(node: onnx.NodeProto, opset: int, feeds: dict[str, Array]) -> list[Array]:
    """All outputs of one node of ONNX's standard domain, by ONNX's reference evaluator."""
    inputs = [_value_info(name, array) for name, array in feeds.items()]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return [np.asarray(item) for item in evaluator_of(model).run(None, feeds)]


def _value_info(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape)


def _infer(operands: Types, attrs: Attrs) -> TensorType:
    return TensorType(ints(attrs, "shape"), text(attrs, "dtype"))


def _evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """An ONNX node as it is: its output number `output`, `shape` of `dtype`."""
    proto = attrs["proto"]
    assert isinstance(proto, bytes)
    node = onnx.NodeProto.FromString(proto)
    feeds = dict(zip(names_read(node), arrays, strict=True))
    result = evaluate_onnx(node, whole(attrs, "opset"), feeds)[whole(attrs, "output")]
    found, inferred = TensorType(result.shape, result.dtype.name), _infer(types, attrs)
    require(
        found == inferred,
        f"a node must give what ONNX infers for it, {inferred}, and {node.op_type} gives {found} "
        f"({node.name or node.output[0]!r}); repair the model",
    )
    return result


def copy_onnx(form: OnnxForm, own: onnx.NodeProto, inputs: Sequence[str]) -> None:
    """Write a node of ONNX, once, that reads `inputs` for the names that it has."""
    given = dict(zip(names_read(own), inputs, strict=True))
    for name in given.keys() - {*own.input}:  # what only subgraphs read keeps its name
        if name != given[name]:
            form.copy(onnx.helper.make_node("Identity", [given[name]], [name]))
    operands = [given.get(name, "") for name in own.input]
    del own.input[:]
    own.input.extend(operands)
    form.copy(own)


def _write_itself(form: OnnxForm, node: Node) -> None:
    """The whole node; its other outputs belong to nodes of their own, which write nothing more.

    A result with another name than in the model is written as the only one, or behind an Identity.
    """
    proto = node.attrs["proto"]
    assert isinstance(proto, bytes)
    own = onnx.NodeProto.FromString(proto)
    outputs = list(filter(None, own.output))
    result = outputs[whole(node.attrs, "output")]
    if result != node.output and len(outputs) == 1:
        own.output[list(own.output).index(result)] = result = node.output
    copy_onnx(form, own, node.inputs)
    if result != node.output:
        form.write(node, "Identity", [result])


FOREIGN = define(
    "onnx",
    ("x",),
    {
        "dtype": "str",
        "op_type": "str",
        "opset": "int",
        "output": "int",
        "proto": "bytes",
        "shape": "ints",
    },
    _infer,
    _evaluate,
    num_optional=1,
    variadic=True,
    onnx=_write_itself,
)
