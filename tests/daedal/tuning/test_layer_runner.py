"""`LayerRunner`: every configuration of a space builds and gives the layer's bytes."""

import numpy as np
import pytest

from bench.correctness.rtl_launches import rtl_device
from daedal.common.errors import TuningError
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.isa.memory_model import PRESETS, MemoryModel, MemoryModelError
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant, load_variant
from daedal.tuning import layer_runner
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.layer_task import RTL, LayerTask
from daedal.tuning.runner import Failure
from tests.support.conv_nodes import conv_layer

TINY = load_variant("tiny")


@pytest.mark.parametrize("stride", [1, 2])
def test_every_drawn_configuration_computes_the_layer(
    stride: int, rng: np.random.Generator
) -> None:
    graph, node = conv_layer(TINY, stride=stride)
    space = space_of(graph, node, TINY)
    assert space is not None
    configs = [space.default, *space.sample(rng, 12)]
    cycles = LayerRunner(graph, node, TINY)(configs)
    assert None not in cycles, "a configuration that fits could not be built"
    assert len(set(cycles)) > 3, "configurations make no difference"


def test_a_configuration_that_cannot_be_built_has_no_cycles() -> None:
    graph, node = conv_layer(TINY)
    space = space_of(graph, node, TINY)
    assert space is not None
    config = type(space.default)((*space.default.values[:-1], ("tap_columns", 99)))
    assert LayerRunner(graph, node, TINY)([config]) == [None]


def test_wrong_bytes_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, node = conv_layer(TINY)
    space = space_of(graph, node, TINY)
    assert space is not None
    runner = LayerRunner(graph, node, TINY)
    wrong = bytearray(runner.task.expected)
    wrong[-1] ^= 1
    monkeypatch.setitem(vars(runner.task), "expected", bytes(wrong))
    with pytest.raises(TuningError, match=r"must compute its layer, .* other bytes .*: gather=0"):
        runner([space.default])
    (result,) = runner.results([space.default])
    assert (result.cycles, result.failure) == (None, Failure.WRONG)


def test_a_task_travels_as_bytes() -> None:
    graph, node = conv_layer(TINY)
    task = LayerTask.of(graph, node, TINY, "slow")
    found = LayerTask.from_bytes(task.to_bytes())
    assert found.to_bytes() == task.to_bytes() and found.key == task.key
    assert found.workload == task.workload == workload_of(graph, node)
    assert found.variant == TINY and found.memory == PRESETS["slow"]
    assert found.expected_digest == task.expected_digest
    assert LayerTask.of(graph, node, TINY, "ddr").key != task.key


def test_a_memory_of_a_file_travels_with_its_numbers() -> None:
    graph, node = conv_layer(TINY)
    mine, other = (MemoryModel("mine", n, 4, 8, 8, shared_bus=True) for n in (20, 30))
    tasks = [LayerTask.of(graph, node, TINY, memory) for memory in (mine, other)]
    assert [LayerTask.from_bytes(task.to_bytes()).memory for task in tasks] == [mine, other]
    assert tasks[0].key != tasks[1].key


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "a task must be one that Daedal wrote"),
        (b"[]", "a task must be one that Daedal wrote"),
        (b"[" * 100_000, "a task must be one that Daedal wrote"),
        (b'{"graph": {}}', "a task must be one that Daedal wrote"),
    ],
)
def test_what_is_no_task_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(TuningError, match=words):
        LayerTask.from_bytes(data)


def test_an_unknown_memory_or_device_is_refused() -> None:
    graph, node = conv_layer(TINY)
    with pytest.raises(MemoryModelError, match=r"memory must be one of .*, not 'fast'"):
        LayerTask.of(graph, node, TINY, "fast")
    with pytest.raises(TuningError, match="layers are measured on timing or rtl, not on 'uart'"):
        LayerTask.of(graph, node, TINY, device="uart")


@pytest.mark.rtl
def test_the_rtl_measures_the_same_cycles(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    graph, node = conv_layer(TINY)
    space = space_of(graph, node, TINY)
    assert space is not None
    configs = space.sample(rng, 2)
    expected = LayerRunner(graph, node, TINY)(configs)
    opened = []

    def open_kept(name: str, variant: Variant, *, timing: MemoryModel) -> Device:
        opened.append(name)
        return rtl_device(variant, timing=timing)

    monkeypatch.setattr(layer_runner, "open_device", open_kept)
    assert LayerRunner(graph, node, TINY, device=RTL)(configs) == expected
    assert opened == ["rtl", "rtl"]


def test_workloads_ignore_scales_and_see_geometry() -> None:
    key = workload_of(*conv_layer(TINY)).key
    assert workload_of(*conv_layer(TINY, scale=0.02)).key == key
    assert workload_of(*conv_layer(TINY, pad=0)).key != key
    assert workload_of(*conv_layer(TINY, stride=2)).key != key
