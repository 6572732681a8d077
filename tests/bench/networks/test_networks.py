"""The bench of whole networks, on tiny ones: what it measures, judges and survives."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.changes.ledger_table import read_ledger
from bench.networks.network_memory import largest_live_set, workspace_bytes
from bench.networks.network_row import Effort, NetworkRow
from bench.networks.network_run import NetworkBench
from bench.networks.networks import main, run_networks
from bench.qdq_model import QdqModel
from bench.zoo.networks import NETWORKS, Network
from daedal.checking.integer_reference import processor_graph
from daedal.common.errors import ModelError
from daedal.compiler.model import compile_model
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import TimingDevice

TINY = load_variant("tiny")
SIZE = 12


def chain(*channels: int, seed: int = 1) -> bytes:
    """A model of 3x3 convolutions, one after the other."""
    rng = np.random.default_rng(seed)
    model = QdqModel()
    x = model.requantized(model.input("image", (1, channels[0], SIZE, SIZE)), 0.05, 3)
    for inner, outer in pairwise(channels):
        values = rng.integers(-127, 128, (outer, inner, 3, 3), dtype=np.int8)
        weights = model.weights(values, np.full(outer, 0.01, dtype=np.float32))
        y = model.op("Conv", x, weights, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = model.requantized(y, 0.05, -5)
    return model.model(x).SerializeToString()


def residual_block() -> bytes:
    """A model of one convolution, to which its input is added."""
    model = QdqModel()
    x = model.requantized(model.input("image", (1, 8, SIZE, SIZE)), 0.05, 3)
    values = np.random.default_rng(3).integers(-127, 128, (8, 8, 3, 3), dtype=np.int8)
    weights = model.weights(values, np.full(8, 0.01, dtype=np.float32))
    y = model.op("Conv", x, weights, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = model.op("Add", model.requantized(y, 0.05, -5), x)
    return model.model(model.requantized(y, 0.05, 1)).SerializeToString()


def network(name: str) -> Network:
    return replace(NETWORKS["squeezenet"], name=name, title=f"the {name}")


def make_bench(
    models: dict[str, bytes | BaseException],
    channels: int = 3,
    variant: Variant = TINY,
    **options: Any,
) -> NetworkBench:
    """A bench of `models` by name; an exception is raised where its model would be read."""

    def read(wanted: Network) -> bytes:
        found = models[wanted.name]
        if isinstance(found, BaseException):
            raise found
        return found

    image = np.random.default_rng(2).standard_normal((1, channels, SIZE, SIZE), dtype=np.float32)
    return NetworkBench(variant, image, read, lambda _sentence: None, **options)


@pytest.fixture(scope="module")
def row() -> NetworkRow:
    values = FunctionalDevice(TINY)
    other_memory = TimingDevice(TINY, timing=PRESETS["ideal"], values=values)
    tested = make_bench({"chain": chain(3, 8, 16, 4)}, rtl=other_memory)
    return tested.measure(network("chain"), compilations=2, on_rtl=True)


def verdicts(row: NetworkRow) -> dict[str, bool]:
    return {item.what: item.passed for item in row.verdicts()}


def test_a_network_is_measured(row: NetworkRow) -> None:
    macs = SIZE * SIZE * 9 * (3 * 8 + 8 * 16 + 16 * 4)
    assert not row.error and row.launches == 1
    assert row.macs == row.accelerator_macs == macs
    assert row.bytes_checked == (8 + 16 + 4) * SIZE * SIZE and row.bytes_wrong == 0
    assert len(row.compile_seconds) == len(row.calibration_seconds) == 2
    assert row.seconds == pytest.approx(sum(row.compile_seconds) / 2)
    assert row.cycles > macs / TINY.macs_per_cycle
    assert row.peak_share == pytest.approx(macs / TINY.macs_per_cycle / row.cycles)
    assert sum(layer["macs"] for layer in row.layers) == macs
    assert sum(layer["cycles"] for layer in row.layers) <= row.cycles
    assert 0 < row.roofline_share < 1
    # Between its layers are maps of 8 and of 16 channels; the second layer needs both.
    assert row.bound_bytes == (8 + 16) * SIZE * SIZE == row.peak_bytes
    assert {item["operator"] for item in row.host} == {"QuantizeLinear", "DequantizeLinear"}


def test_fusion_is_compared_with_none() -> None:
    tested = make_bench({"block": residual_block()}, channels=8, variant=load_variant("vta"))
    found = tested.measure(network("block"), compilations=1, on_rtl=False)
    assert (found.unfused.layers, found.fused.layers) == (2, 1)
    assert found.fused.cycles < found.unfused.cycles
    # What the convolution gives neither leaves the chip nor comes back.
    saved = found.unfused.bytes_moved - found.fused.bytes_moved
    assert saved >= 2 * 8 * SIZE * SIZE
    assert {"fused", "unfused", "cycles"} <= found.to_json().keys()


def test_cycles_that_differ_are_noticed(row: NetworkRow) -> None:
    assert row.rtl_cycles is not None and row.rtl_cycles < row.cycles  # on another memory
    assert not verdicts(row)["cycles on the RTL, as the model says"]
    assert verdicts(replace(row, rtl_cycles=row.cycles))["cycles on the RTL, as the model says"]
    assert not row.passed and replace(row, rtl_cycles=None).passed


ON_VTA = {"variant": "vta"}
LISTED = read_ledger()["resnet18.vta"].cycles
LISTED_BYTES = read_ledger()["resnet18.vta"].memory_bytes or 0


@pytest.mark.parametrize(
    ("what", "changes", "passes"),
    [
        ("MACs on the accelerator", {"accelerator_macs": 98, "macs": 100}, False),
        ("MACs on the accelerator", {"accelerator_macs": 99, "macs": 100}, True),
        ("bytes unlike the reference", {"bytes_wrong": 1}, False),
        ("bytes unlike the reference", {"bytes_checked": 0}, False),
        ("peak memory over the lower bound", {"peak_bytes": 112, "bound_bytes": 100}, False),
        ("peak memory over the lower bound", {"peak_bytes": 109, "bound_bytes": 100}, True),
        (
            "peak memory, as the ledger has it",
            {**ON_VTA, "name": "resnet18", "peak_bytes": LISTED_BYTES, "bound_bytes": 1},
            True,
        ),
        (
            "peak memory, as the ledger has it",
            {**ON_VTA, "name": "resnet18", "peak_bytes": LISTED_BYTES + 64},
            False,
        ),
        (
            "cycles in one launch",
            {**ON_VTA, "name": "resnet18", "fused": Effort(1, 6_750_001)},
            False,
        ),
        ("cycles in one launch", {**ON_VTA, "name": "resnet18", "launches": 2}, False),
        (
            "cycles in one launch",
            {**ON_VTA, "name": "resnet18", "fused": Effort(1, 6_750_000)},
            True,
        ),
        (
            "cycles in one launch",
            {**ON_VTA, "name": "mobilenet_v1", "fused": Effort(1, 2_700_001)},
            False,
        ),
        (
            "cycles, as the ledger has them",
            {**ON_VTA, "name": "resnet18", "fused": Effort(1, LISTED)},
            True,
        ),
        (
            "cycles, as the ledger has them",
            {**ON_VTA, "name": "resnet18", "fused": Effort(1, LISTED - 1)},
            False,
        ),
        ("seconds to compile", {"name": "resnet50", "compile_seconds": (1, 9, 22)}, False),
        ("seconds to compile", {"name": "resnet50", "compile_seconds": (99, 1, 2)}, True),
    ],
)
def test_bars(row: NetworkRow, what: str, changes: dict[str, Any], passes: bool) -> None:
    assert verdicts(replace(row, **changes))[what] == passes


def test_wrong_bytes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    other = processor_graph(chain(3, 8, seed=5), TINY)
    monkeypatch.setattr("daedal.checking.layer_check.processor_graph", lambda *_arguments: other)
    tested = make_bench({"chain": chain(3, 8)})
    found = tested.measure(network("chain"), compilations=1, on_rtl=True)
    assert found.bytes_wrong > 0.5 * found.bytes_checked and not found.passed
    assert found.rtl_cycles is None  # there is no such device


def test_a_network_that_fails_is_reported_and_the_next_one_runs() -> None:
    tested = make_bench({"bad": ModelError("a model must be good"), "good": chain(3, 4)})
    kept: list[int] = []
    rows = run_networks(
        tested, [network("bad"), network("good")], lambda rows: kept.append(len(rows))
    )
    assert kept == [1, 2]
    assert rows[0].error == "a model must be good" and not rows[0].passed
    assert rows[1].passed
    assert json.loads(json.dumps(rows[0].to_json()))["verdicts"][0]["passed"] is False


def test_an_interrupt_keeps_what_is_measured() -> None:
    tested = make_bench({"good": chain(3, 4), "long": KeyboardInterrupt()})
    rows = run_networks(tested, [network("good"), network("long")], lambda _rows: None)
    assert [item.name for item in rows] == ["good"]


def test_a_program_that_keeps_nothing_needs_no_memory() -> None:
    program = compile_model(chain(3, 4), TINY).program
    assert workspace_bytes(program) == largest_live_set(program) == 0


def test_mistakes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["lenet"])
    assert "a network must be one of resnet18, resnet50" in capsys.readouterr().err
    assert main(["--variant", "vat", "--json", str(tmp_path / "none.json")]) == 2
    assert not any(tmp_path.iterdir())
