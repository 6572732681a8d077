"""Models of one node with extreme attributes and constants, for every operator of every opset, and
a child process in which ONNX's shape inference runs on what the frontend lets through.

``python -m tests.robustness.inference_fuzz`` runs all of them, some 100,000.
"""

import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from daedal.common.errors import ModelError
from daedal.compiler.cpu.types import Types
from daedal.compiler.frontend.bounds import check_bounds
from daedal.compiler.frontend.tensor_types import tensor_types

__all__ = ["crashes", "models", "sample", "slices"]

EDGES = (2**63 - 1, -(2**63), 2**31, 2**31 - 1, -(2**31), 10**6, 64, -64, -1, 0)

LIMIT_BYTES = 4 << 30
LIMIT_S = 5

_KINDS = {
    "tensor(float)": TensorProto.FLOAT,
    "tensor(int64)": TensorProto.INT64,
    "tensor(bool)": TensorProto.BOOL,
    "tensor(int8)": TensorProto.INT8,
}
_TYPES = onnx.defs.OpSchema.AttrType
_REQUIRED = {
    _TYPES.INT: 1,
    _TYPES.INTS: [1],
    _TYPES.FLOAT: 1.0,
    _TYPES.FLOATS: [1.0],
    _TYPES.STRING: "a",
    _TYPES.STRINGS: ["a"],
}


def models() -> Iterator[onnx.ModelProto]:
    """All of them, in a fixed order."""
    yield from slices()
    for schema, rank in product(_schemas(), (1, 3)):
        yield from filter(None, _of_schema(schema, rank))


def sample(rng: np.random.Generator, operators: int, each: int) -> list[onnx.ModelProto]:
    """Some models of some operators."""
    found = []
    schemas = _schemas()
    for number in rng.integers(len(schemas), size=operators):
        made = list(filter(None, _of_schema(schemas[number], 3)))
        found += [made[int(index)] for index in rng.integers(len(made), size=each)] if made else []
    return found


def _schemas() -> list[Any]:
    schemas = [item for item in onnx.defs.get_all_schemas_with_history() if not item.domain]
    return sorted(schemas, key=lambda item: (item.name, item.since_version))


def _of_schema(schema: Any, rank: int) -> Iterator[onnx.ModelProto | None]:
    counts = sorted({schema.min_input, len(schema.inputs)})
    for name, attribute in schema.attributes.items():
        for value, count in product(_values(attribute.type, rank), counts):
            yield _model(schema, rank, count, {name: value})
    for index, value, size in product(range(len(schema.inputs)), EDGES, (0, 1, rank, 2 * rank)):
        constant = np.full((size,) if size else (), value, np.int64)
        yield _model(schema, rank, max(schema.min_input, index + 1), {}, (index, constant))


def _values(kind: Any, rank: int) -> Iterator[Any]:
    if kind == _TYPES.INT:
        yield from EDGES
    elif kind == _TYPES.INTS:
        for value, count in product(EDGES, sorted({1, 2, rank, 2 * rank})):
            yield [value] * count


def _model(
    schema: Any,
    rank: int,
    count: int,
    attributes: dict[str, Any],
    constant: tuple[int, np.ndarray] | None = None,
) -> onnx.ModelProto | None:
    """One node; None where an operand or attribute has a type that is not made here."""
    given = dict(attributes)
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in given:
            if attribute.type not in _REQUIRED:
                return None
            given[name] = _REQUIRED[attribute.type]
    inputs, constants = [], []
    names = [f"x{index}" for index in range(count)]
    for index, name in enumerate(names):
        if constant is not None and constant[0] == index:
            constants.append(numpy_helper.from_array(constant[1], name))
            continue
        allowed = schema.inputs[min(index, len(schema.inputs) - 1)].types
        kind = next((kind for word, kind in _KINDS.items() if word in allowed), None)
        if kind is None:
            return None
        if kind == TensorProto.INT64 and index:
            constants.append(numpy_helper.from_array(np.ones(rank, np.int64), name))
        else:
            inputs.append(helper.make_tensor_value_info(name, kind, [4] * rank))
    outputs = [f"y{index}" for index in range(max(schema.min_output, 1))]
    node = helper.make_node(schema.name, names, outputs, **given)
    return _of_nodes([node], inputs, constants, schema.since_version)


def slices() -> Iterator[onnx.ModelProto]:
    """Slices of shapes, whose steps are constants of three kinds or computed."""
    for start, end, step, kind in product(
        (1, -(2**63)), (2**63 - 1, -(2**63)), (*EDGES[:5], 2), range(4)
    ):
        values = zip("abcd", (start, end, 0, step), strict=True)
        constants = [numpy_helper.from_array(np.array([value]), name) for name, value in values]
        steps = constants[3]
        nodes = [helper.make_node("Shape", ["x"], ["s"])]
        nodes += [
            [],
            [helper.make_node("Constant", [], ["e"], value=steps)],
            [helper.make_node("Concat", ["d"], ["e"], axis=0)],
            [helper.make_node("Add", ["d", "c"], ["e"])],
        ][kind]
        nodes.append(helper.make_node("Slice", ["s", "a", "b", "c", "e" if kind else "d"], ["y"]))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 5, 6])
        yield _of_nodes(nodes, [x], constants, 21)


def _of_nodes(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto],
    opset: int,
) -> onnx.ModelProto:
    outputs = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output]
    graph = helper.make_graph(nodes, "one", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def crashes(some: Sequence[onnx.ModelProto]) -> list[str]:
    """Models at which the child ended: killed, out of memory or time, or by a foreign error."""
    found, start = [], 0
    while start < len(some):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _run(some, start, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            told = stream.read()
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        start = int.from_bytes(told[-4:], "little")
        found.append(f"status {status}: {onnx.printer.to_text(some[start].graph)}")
        start += 1
    return found


def _run(some: Sequence[onnx.ModelProto], start: int, writer: int) -> None:
    """In the child: tell the number of each model, then infer it."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number in range(start, len(some)):
            os.write(writer, number.to_bytes(4, "little"))
            signal.alarm(LIMIT_S)
            _infer(some[number])
            signal.alarm(0)
        status = 0
    finally:
        os._exit(status)


def _infer(model: onnx.ModelProto) -> None:
    try:
        check_bounds(model, loops=True)
        tensor_types(model)
        types = Types(model)
    except ModelError:
        return
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    for node in model.graph.node:
        types.infer(node, constants)


if __name__ == "__main__":
    everything = list(models())
    wrong = crashes(everything)
    print(*wrong, f"{len(wrong)} of {len(everything)} models crash", sep="\n")
    sys.exit(bool(wrong))
