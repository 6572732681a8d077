"""A small layer for tests of runners, and candidates that go wrong in different ways."""

import numpy as np

from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import compile_graph
from daedal.isa.variant import Variant

__all__ = ["HARMFUL", "harmful", "small_layer", "space"]

HARMFUL = """
import ctypes, os, sys, time
from daedal.tuning import child
from daedal.tuning.runner import Result

build, run = child._ROLES["build"], child._ROLES["run"]

def harm(kind):
    if kind == 91:
        ctypes.string_at(0)
    elif kind == 92:
        time.sleep(1e6)
    elif kind == 93:
        bytearray(1 << 62)
    elif kind == 94:
        os._exit(7)
    elif kind == 95:
        raise AssertionError("an invariant\\nis broken")

def harmful_build(task, config):
    harm(config["tap_columns"])
    program = build(task, config)
    return program

def harmful_run(task, program):
    found = run(task, program)
    return Result(found.cycles, "0" * 64) if os.environ.get("DAEDAL_TEST_LIES") else found

child._ROLES.update(build=harmful_build, run=harmful_run)
child.main()
"""
"""A child process that goes wrong where `tap_columns` has a value of `harmful`."""


def harmful(config: Config, kind: str) -> Config:
    """`config`, but the child of `HARMFUL` goes wrong as `kind` says."""
    kinds = {"segfault": 91, "hang": 92, "memory": 93, "exit": 94, "bug": 95, "unbuildable": 99}
    return Config(tuple({**config.to_json(), "tap_columns": kinds[kind]}.items()))


def small_layer(
    variant: Variant, *, pad: int = 1, stride: int = 1, scale: float = 0.01, size: int = 12
) -> tuple[Graph, Node]:
    """The second of two convolutions, 8 -> 16 channels on a square map."""
    rng = np.random.default_rng(3)
    model = QdqModel()
    x = model.requantized(model.input("x", (1, 8, size, size)), 0.05, 3)
    for number, (ins, outs) in enumerate(((8, 8), (8, 16))):
        values = rng.integers(-127, 128, (outs, ins, 3, 3)).astype(np.int8)
        weights = model.weights(values, scale)
        strides = [stride if number else 1] * 2
        y = model.op("Conv", x, weights, pads=[pad if number else 1] * 4, strides=strides)
        x = model.requantized(y, 0.05, 3)
    compiled = compile_graph(load_onnx(model.model(x).SerializeToString()), variant, host=None)
    graph = compiled.launch.graph
    return graph, next(node for node in reversed(graph.nodes) if node.op.startswith("q_conv2d"))


def space(graph: Graph, node: Node, variant: Variant) -> LayerSpace:
    """The layer's schedules."""
    found = space_of(graph, node, variant)
    assert found is not None
    return found
