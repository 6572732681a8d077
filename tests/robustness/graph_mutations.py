"""Mutations of an ONNX model's graph: nodes, names, inputs, outputs and versions."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.robustness.nasty import nasty_integer, nasty_name, nasty_shape, pick

__all__ = ["GRAPH_MUTATIONS", "ModelMutation"]

Rng = np.random.Generator
ModelMutation = Callable[[Rng, onnx.ModelProto], None]

_OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})


def _node(rng: Rng, model: onnx.ModelProto) -> onnx.NodeProto:
    return pick(rng, model.graph.node)


def _tensor(rng: Rng, model: onnx.ModelProto) -> str:
    """A name that the model uses."""
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    names += [tensor.name for tensor in model.graph.initializer]
    return str(pick(rng, names)) if names else "x"


def _set_name(names: list[str], index: int, name: str) -> None:
    if names:
        names[index % len(names)] = name


def delete_node(rng: Rng, model: onnx.ModelProto) -> None:
    if len(model.graph.node) > 1:
        model.graph.node.remove(_node(rng, model))


def delete_most_nodes(rng: Rng, model: onnx.ModelProto) -> None:
    del model.graph.node[int(rng.integers(1, len(model.graph.node) + 1)) :]


def duplicate_node(rng: Rng, model: onnx.ModelProto) -> None:
    copy = model.graph.node.add()
    copy.CopyFrom(_node(rng, model))
    if rng.random() < 0.5:
        _set_name(copy.output, 0, "copied")


def shuffle_nodes(rng: Rng, model: onnx.ModelProto) -> None:
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[index] for index in rng.permutation(len(nodes)))


def make_cycle(rng: Rng, model: onnx.ModelProto) -> None:
    """An early node reads what a later one computes, or what it computes itself."""
    first, last = sorted(int(item) for item in rng.integers(len(model.graph.node), size=2))
    later = str(next(iter(model.graph.node[last].output), "y"))
    _set_name(model.graph.node[first].input, 0, later)


def rename_one_use(rng: Rng, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    name = nasty_name(rng) if rng.random() < 0.5 else _tensor(rng, model)
    _set_name(pick(rng, (node.input, node.output)), int(rng.integers(4)), name)


def rename_everywhere(rng: Rng, model: onnx.ModelProto) -> None:
    """The model keeps its meaning; a tensor and the graph have another name."""
    old, new = _tensor(rng, model), nasty_name(rng)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
    graph = model.graph
    for item in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        if item.name == old:
            item.name = new
    graph.name = nasty_name(rng)


def rename_nodes(rng: Rng, model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.name = nasty_name(rng)


def change_operator(rng: Rng, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    if rng.random() < 0.5:
        del node.attribute[:]
    node.op_type = pick(rng, _OPERATORS) if rng.random() < 0.8 else nasty_name(rng)


def insert_operator(rng: Rng, model: onnx.ModelProto) -> None:
    """A random operator of ONNX over tensors of the model, before the last nodes."""
    count = int(rng.integers(0, 4))
    inputs = [_tensor(rng, model) for _ in range(count)]
    node = helper.make_node(pick(rng, _OPERATORS), inputs, ["inserted"])
    position = int(rng.integers(len(model.graph.node) + 1))
    nodes = [*model.graph.node[:position], node, *model.graph.node[position:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    if position < len(nodes) - 1:
        _set_name(pick(rng, nodes[position + 1 :]).input, 0, "inserted")


def change_domain(rng: Rng, model: onnx.ModelProto) -> None:
    domain = pick(rng, ("com.microsoft", "ai.onnx", "ai.onnx.ml", nasty_name(rng)))
    _node(rng, model).domain = domain
    if rng.random() < 0.7:
        model.opset_import.append(helper.make_opsetid(domain, int(rng.integers(1, 25))))


def change_operands(rng: Rng, model: onnx.ModelProto) -> None:
    names = pick(rng, (_node(rng, model).input, _node(rng, model).output))
    kind = int(rng.integers(5))
    if kind == 0:
        del names[-1:]
    elif kind == 1:
        names.append(_tensor(rng, model))
    elif kind == 2:
        _set_name(names, int(rng.integers(4)), "")
    elif kind == 3:
        del names[:]
    else:
        names[:] = list(reversed(names))


def change_outputs(rng: Rng, model: onnx.ModelProto) -> None:
    outputs = model.graph.output
    kind = int(rng.integers(5))
    if kind == 0:
        del outputs[-1:]
    elif kind == 1 and outputs:
        outputs.add().CopyFrom(outputs[0])
    elif kind == 2:
        outputs.add(name=_tensor(rng, model))
    elif kind == 3 and outputs:
        outputs[0].name = _tensor(rng, model)
    elif outputs:
        outputs[0].name = nasty_name(rng)


def change_inputs(rng: Rng, model: onnx.ModelProto) -> None:
    inputs = model.graph.input
    kind = int(rng.integers(4))
    if kind == 0:
        del inputs[-1:]
    elif kind == 1 and inputs:
        inputs.add().CopyFrom(inputs[0])
    elif kind == 2:
        shape = nasty_shape(rng)
        inputs.append(helper.make_tensor_value_info(_tensor(rng, model), TensorProto.FLOAT, shape))
    elif inputs:
        inputs[0].name = nasty_name(rng)


def change_versions(rng: Rng, model: onnx.ModelProto) -> None:
    kind = int(rng.integers(5))
    versions = (*range(-1, 30), nasty_integer(rng))
    if kind == 0:
        model.ir_version = pick(rng, (0, -1, 1, 3, 4, 99, nasty_integer(rng)))
    elif kind == 1:
        del model.opset_import[:]
    elif kind == 2:
        model.opset_import.append(helper.make_opsetid(pick(rng, ("", "x", "ai.onnx")), 13))
    else:
        model.opset_import[0].version = pick(rng, versions)


def add_texts(rng: Rng, model: onnx.ModelProto) -> None:
    """Texts that nothing reads, which must not matter."""
    model.doc_string = model.graph.doc_string = nasty_name(rng)
    model.producer_name = model.domain = nasty_name(rng)
    for _ in range(3):
        model.metadata_props.add(key=nasty_name(rng), value=nasty_name(rng))
    _node(rng, model).doc_string = nasty_name(rng)


def lengthen_chain(rng: Rng, model: onnx.ModelProto) -> None:
    """10,000 nodes in a row behind the first node."""
    op_type = pick(rng, ("Relu", "Identity", "Exp", "Flatten", "Transpose", "MaxPool", "Add"))
    attrs = {"kernel_shape": [1, 1]} if op_type == "MaxPool" else {}
    name = last = str(next(iter(model.graph.node[0].output), "x"))
    chain = []
    for number in range(int(pick(rng, (100, 1_100, 10_000)))):
        operands = [last] * (2 if op_type == "Add" else 1)
        last = f"chained{number}"
        chain.append(helper.make_node(op_type, operands, [last], **attrs))
    for node in model.graph.node[1:]:
        node.input[:] = [last if item == name else item for item in node.input]
    nodes = [model.graph.node[0], *chain, *model.graph.node[1:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


GRAPH_MUTATIONS: tuple[ModelMutation, ...] = (
    delete_node,
    delete_most_nodes,
    duplicate_node,
    shuffle_nodes,
    make_cycle,
    rename_one_use,
    rename_everywhere,
    rename_nodes,
    change_operator,
    insert_operator,
    change_domain,
    change_operands,
    change_outputs,
    change_inputs,
    change_versions,
    add_texts,
    lengthen_chain,
)
