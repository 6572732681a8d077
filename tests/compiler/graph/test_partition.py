"""Parts of one target each, and what they need; more targets than the kit has."""

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, run, verify
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops import get_op, registry
from daedal.compiler.graph.passes import partition
from daedal.compiler.graph.passes.partition import assign_targets
from daedal.compiler.targets import target
from daedal.compiler.targets.names import ACCELERATOR, CPU
from daedal.compiler.targets.target import Target, add_target, get_target

SECOND = "second"
SHAPE = (1, 2, 3, 4)


class Second(Target):
    name = SECOND
    title = "a processor that only these tests have, as fast as the other one"

    def seconds(self, graph: Graph, node: Node) -> float:
        return get_target(CPU).seconds(graph, node)


@pytest.fixture(autouse=True)
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_TARGETS", {})
    add_target(Second())


def redirect(monkeypatch: pytest.MonkeyPatch, op: str, *targets: str) -> None:
    changed = dataclasses.replace(get_op(op), targets=targets)
    monkeypatch.setitem(registry._REGISTRY, op, changed)


def graph_of(maker: QdqModel, output: str) -> Graph:
    return load_onnx(maker.model(output).SerializeToString())


def check_run(graph: Graph, rng: np.random.Generator) -> None:
    """The parts in order compute what the whole graph does, and need only earlier parts."""
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    values: dict[str, npt.NDArray[np.float32]] = dict(inputs)
    made = dict.fromkeys(graph.inputs, "")
    done: list[str] = []
    for part in partition(graph):
        verify(part.graph)
        assert set(part.needs) == {made[name] for name in part.graph.inputs} - {""}
        assert set(part.needs) <= set(done)
        done.append(part.name)
        made.update(dict.fromkeys(part.graph.outputs, part.name))
        values.update(run(part.graph, {name: values[name] for name in part.graph.inputs}))
    assert len(set(done)) == len(done)
    for name, expected in run(graph, inputs).items():
        np.testing.assert_array_equal(values[name], expected)


def test_every_operator_has_a_target() -> None:
    for definition in registry.list_ops():
        assert definition.targets
        integers = definition.name.startswith("q_")
        assert (ACCELERATOR in definition.targets) == integers or definition.is_view, definition


def test_parts_of_one_level_follow_each_other(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Two branches, each on a target of its own, need the same part and not each other."""
    redirect(monkeypatch, "softmax", ACCELERATOR)
    redirect(monkeypatch, "leaky_relu", SECOND)
    maker = QdqModel()
    x = maker.op("Relu", maker.input("x", SHAPE))
    both = maker.op("Softmax", x), maker.op("LeakyRelu", x)
    maker.op("Add", *both, output="y")
    graph = graph_of(maker, "y")
    parts = partition(graph)
    assert [(part.name, part.needs) for part in parts] == [
        ("cpu0", ()),
        ("accelerator0", ("cpu0",)),
        ("second0", ("cpu0",)),
        ("cpu1", ("accelerator0", "second0")),
    ]
    assert [part.target for part in parts] == [CPU, ACCELERATOR, SECOND, CPU]
    check_run(graph, rng)


def test_a_chain_over_three_targets(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """The accelerator reads the network's input; the second processor's parts are two."""
    redirect(monkeypatch, "softmax", ACCELERATOR)
    redirect(monkeypatch, "leaky_relu", SECOND)
    maker = QdqModel()
    first = maker.op("LeakyRelu", maker.op("Softmax", maker.input("x", SHAPE)))
    maker.op("LeakyRelu", maker.op("Add", first, maker.op("Softmax", first)), output="y")
    graph = graph_of(maker, "y")
    assert [(part.name, part.needs) for part in partition(graph)] == [
        ("accelerator0", ()),
        ("second0", ("accelerator0",)),
        ("accelerator1", ("second0",)),
        ("cpu0", ("second0", "accelerator1")),
        ("second1", ("cpu0",)),
    ]
    check_run(graph, rng)


def test_an_operator_of_several_targets_runs_where_its_operands_are(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    redirect(monkeypatch, "relu", ACCELERATOR)
    redirect(monkeypatch, "softmax", SECOND)
    redirect(monkeypatch, "add", CPU, SECOND)
    maker = QdqModel()
    x = maker.input("x", SHAPE)
    narrow = maker.op("Softmax", maker.op("ReduceMax", x, axes=[3]))
    wide = maker.op("Softmax", x)
    near = maker.op("Add", narrow, x)
    maker.op("Relu", maker.op("Add", near, maker.op("Add", wide, narrow)), output="y")
    graph = graph_of(maker, "y")
    targets = assign_targets(graph)
    adds = [targets[node.output] for node in graph.nodes if node.op == "add"]
    # The last sum finds one operand at each target, of the same size: the first target wins.
    assert adds == [CPU, SECOND, CPU]
    check_run(graph, rng)
