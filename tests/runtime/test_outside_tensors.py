"""Inputs and outputs of compiled code lie where the caller has them, and nothing else changes."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from daedal.compiler.cpu.build import build_host_code
from daedal.runtime.host_code import HostProgram
from daedal.runtime.outside_tensors import outside_places

SHAPE = (4, 6)


def model(nodes: list[Any], outputs: dict[str, tuple[int, ...]]) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in outputs.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def chain() -> ModelProto:
    """Softmax, whose kernels read the input and what they computed several times."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"]),
        helper.make_node("Add", ["y", "x"], ["z"]),
    ]
    return model(nodes, {"y": SHAPE, "z": SHAPE})


def wanted(x: np.ndarray) -> dict[str, np.ndarray]:
    grown = np.exp(np.maximum(x, 0))
    y = grown / grown.sum(axis=-1, keepdims=True)
    return {"y": y, "z": y + x}


def unaligned(x: np.ndarray) -> np.ndarray:
    """The same values at an address that is no multiple of 4."""
    room = np.zeros(x.nbytes + 1, np.uint8)
    shifted = room[1:].view(x.dtype).reshape(x.shape)
    shifted[...] = x
    return shifted


GIVEN = {
    "as it is": lambda x: x,
    "turned": lambda x: np.asfortranarray(x),
    "every second": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "unaligned": unaligned,
    "of doubles": lambda x: x.astype(np.float64),
}


@pytest.mark.parametrize("how", GIVEN)
@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_of_every_kind(how: str, threads: int) -> None:
    """The results are right and the caller's, and what was given stays as it is."""
    program = HostProgram(build_host_code(chain()), threads)
    kept = []
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
        given = GIVEN[how](x)
        given.flags.writeable = False
        found = program.run({"x": given})
        np.testing.assert_array_equal(given, x)
        kept.append((found, wanted(x)))
    for found, right in kept:  # a later run leaves them alone
        for name, value in right.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_both_are_where_the_caller_has_them() -> None:
    assert outside_places(build_host_code(chain())).keys() == {"x", "y", "z"}


def test_what_lies_in_the_program_stays_there() -> None:
    """An output that is an input, and one that is another shape of it."""
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Flatten", ["x"], ["f"], axis=0),
        helper.make_node("Relu", ["x"], ["z"]),
    ]
    code = build_host_code(model(nodes, {"y": SHAPE, "f": (1, 24), "z": SHAPE, "x": SHAPE}))
    assert outside_places(code).keys() == {"z"}
    program = HostProgram(code)
    for seed in range(2):
        x = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
        found = program.run({"x": x})
        right = {"x": x, "y": x, "f": x.reshape(1, 24), "z": np.maximum(x, 0)}
        for name, value in right.items():
            np.testing.assert_array_equal(found[name], value)
            assert not np.may_share_memory(found[name], x)


def test_one_result_with_two_names() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["y"], ["z"])]
    program = HostProgram(build_host_code(model(nodes, {"y": SHAPE, "z": SHAPE})))
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    found = program.run({"x": x})
    for name in ("y", "z"):
        np.testing.assert_array_equal(found[name], np.maximum(x, 0))
    assert not np.may_share_memory(found["y"], found["z"])


def test_joined_and_interpreted_tensors_are_copied() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Concat", ["a", "x", "x"], ["y"], axis=0),
    ]
    joined = build_host_code(model(nodes, {"y": (12, 6)}))
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    np.testing.assert_array_equal(
        HostProgram(joined).run({"x": x})["y"], np.concatenate([np.maximum(x, 0), x, x])
    )
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Relu", ["x"], ["z"]),
    ]
    interpreted = build_host_code(model(nodes, {"y": (2, 24), "z": SHAPE}))
    assert interpreted.interpreted and not outside_places(interpreted)
    found = HostProgram(interpreted).run({"x": x})
    np.testing.assert_array_equal(found["y"], np.array(np.nonzero(x)))
    np.testing.assert_array_equal(found["z"], np.maximum(x, 0))
