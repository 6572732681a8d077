"""Mutations that nest: subgraphs, functions, loops, and types within types."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.robustness.graph_mutations import ModelMutation
from tests.robustness.nasty import nasty_name, pick

__all__ = ["NESTING_MUTATIONS"]

Rng = np.random.Generator

_DOMAIN = "own"


def _first(model: onnx.ModelProto) -> str:
    """What the first node computes."""
    return str(next(iter(model.graph.node[0].output), "x"))


def _splice(model: onnx.ModelProto, node: onnx.NodeProto, result: str) -> None:
    """Put `node` behind the first node; the others read its `result` instead."""
    first = _first(model)
    for item in model.graph.node[1:]:
        item.input[:] = [result if name == first else name for name in item.input]
    nodes = [model.graph.node[0], node, *model.graph.node[1:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _branch(depth: int, tensor: str) -> onnx.GraphProto:
    """A graph without inputs that gives `tensor`, through `depth` conditions in each other."""
    node = helper.make_node("Identity", [tensor], [f"r{depth}"])
    if depth:
        inner = _branch(depth - 1, tensor)
        node = helper.make_node(
            "If", ["condition"], [f"r{depth}"], then_branch=inner, else_branch=inner
        )
    value = helper.make_tensor_value_info(f"r{depth}", TensorProto.UNDEFINED, None)
    return helper.make_graph([node], f"g{depth}", [], [value])


def nest_conditions(rng: Rng, model: onnx.ModelProto) -> None:
    depth = int(pick(rng, (0, 1, 3, 9)))
    tensor = _first(model)
    branch = _branch(depth, tensor)
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "condition"))
    node = helper.make_node("If", ["condition"], ["chosen"], then_branch=branch, else_branch=branch)
    _splice(model, node, "chosen")


def nest_deeply(rng: Rng, model: onnx.ModelProto) -> None:
    """One subgraph in the other, nearly as deep as protobuf reads."""
    graph = _branch(0, _first(model))
    for level in range(int(pick(rng, (3, 10, 20, 28)))):
        value = helper.make_tensor_value_info(f"d{level}", TensorProto.FLOAT, None)
        node = helper.make_node("If", ["condition"], [f"d{level}"], then_branch=graph)
        graph = helper.make_graph([node], "g", [], [value])
    _splice(model, graph.node[0], str(graph.output[0].name))


def loop_long(rng: Rng, model: onnx.ModelProto) -> None:
    """A loop that ends after very many rounds, or never."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_next"]),
            helper.make_node("Identity", ["v"], ["v_next"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.UNDEFINED, None),
        ],
        [
            helper.make_tensor_value_info("c_next", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_next", TensorProto.UNDEFINED, None),
        ],
    )
    rounds = np.array(pick(rng, (0, 3, 1 << 40)), np.int64)
    model.graph.initializer.append(numpy_helper.from_array(rounds, "rounds"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "go"))
    tensor = _first(model)
    _splice(model, helper.make_node("Loop", ["rounds", "go", tensor], ["done"], body=body), "done")


def call_functions(rng: Rng, model: onnx.ModelProto) -> None:
    """Functions of the model's own: a few in a row, each calling the next twice, or itself."""
    kind = pick(rng, ("plain", "doubling", "recursive", "mutual", "missing"))
    count = {"plain": 3, "doubling": 40, "recursive": 1, "mutual": 2, "missing": 1}[kind]
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(_DOMAIN, 1)]
    for number in range(count):
        callee = {"recursive": number, "mutual": 1 - number}.get(kind, number + 1)
        ends = callee >= count
        op_type, domain = ("Relu", "") if ends else (f"f{callee}", _DOMAIN)
        nodes = [
            helper.make_node(op_type, ["a"], ["t"], domain=domain),
            helper.make_node(op_type, ["t"], ["b"], domain=domain)
            if kind == "doubling"
            else helper.make_node("Identity", ["t"], ["b"]),
        ]
        if kind != "missing":
            model.functions.append(
                helper.make_function(_DOMAIN, f"f{number}", ["a"], ["b"], nodes, opsets)
            )
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    tensor = _first(model)
    _splice(model, helper.make_node("f0", [tensor], ["called"], domain=_DOMAIN), "called")


def grow_huge(rng: Rng, model: onnx.ModelProto) -> None:
    """A few bytes of file that ask for terabytes: shapes, tiles, ranges and pads from constants."""
    big = int(pick(rng, (1 << 14, 1 << 20, 1 << 27, 1 << 40)))
    vector = np.full(int(rng.integers(1, 5)), big, np.int64)
    model.graph.initializer.append(numpy_helper.from_array(vector, "big"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(big), "limit"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(0), "none"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(1), "one"))
    tensor = _first(model)
    node = pick(
        rng,
        (
            helper.make_node("ConstantOfShape", ["big"], ["grown"]),
            helper.make_node("Expand", [tensor, "big"], ["grown"]),
            helper.make_node("Tile", [tensor, "big"], ["grown"]),
            helper.make_node("Range", ["none", "limit", "one"], ["grown"]),
            helper.make_node("Pad", [tensor, "big"], ["grown"]),
            helper.make_node("Resize", [tensor, "", "", "big"], ["grown"]),
            helper.make_node("OneHot", ["one", "limit", "big"], ["grown"]),
        ),
    )
    _splice(model, node, "grown")


def nest_types(rng: Rng, model: onnx.ModelProto) -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    for _ in range(int(pick(rng, (1, 2, 20, 40)))):
        kind = helper.make_sequence_type_proto(kind)
    value = helper.make_value_info(nasty_name(rng), kind)
    pick(rng, (model.graph.input, model.graph.value_info, model.graph.output)).append(value)


NESTING_MUTATIONS: tuple[ModelMutation, ...] = (
    nest_conditions,
    nest_deeply,
    loop_long,
    call_functions,
    grow_huge,
    nest_types,
)
