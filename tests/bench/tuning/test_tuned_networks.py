"""The bench of tuned networks, on a tiny one: what it counts, what it judges, what it refuses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from bench.tuning.tuned_networks import TunedRow, main, tuned_row
from daedal.compiler.tune.database import Database
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant
from daedal.sim.timing.device import TimingDevice

TINY = load_variant("tiny")


@pytest.fixture(scope="module")
def model() -> bytes:
    """One convolution, 8 -> 16 channels on 10 x 10."""
    rng = np.random.default_rng(3)
    net = QdqModel()
    x = net.requantized(net.input("x", (1, 8, 10, 10)), 0.05, 0)
    values = rng.integers(-127, 128, (16, 8, 3, 3)).astype(np.int8)
    y = net.op("Conv", x, net.weights(values, 0.01), pads=[1] * 4)
    return net.model(net.requantized(y, 0.05, 0)).SerializeToString()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    with Database(tmp_path_factory.mktemp("tuned") / "records.db") as opened:
        yield opened


@pytest.fixture(scope="module")
def row(model: bytes, database: Database) -> TunedRow:
    found = tuned_row(
        "net", model, TINY, database, trials=8, seconds=None, say=print, rtl=TimingDevice(TINY)
    )
    assert found is not None
    return found


def test_both_programs_are_counted(row: TunedRow) -> None:
    assert row.trials == row.measured == 8
    assert row.rtl_cycles == row.network_cycles and row.passed
    before, after = row.layer_cycles
    assert row.bound_cycles is not None and row.bound_cycles <= after <= before
    (layer,) = row.layers
    assert layer["cycles"] == [before, after] and layer["measured"] == 8


def test_a_second_run_adds_to_the_first(row: TunedRow, model: bytes, database: Database) -> None:
    again = tuned_row("net", model, TINY, database, trials=2, seconds=None, say=print)
    assert again is not None and (again.trials, again.measured) == (2, 10)
    assert again.network_cycles[1] <= row.network_cycles[1] and again.rtl_cycles is None


def test_other_cycles_and_slower_networks_miss(row: TunedRow, database: Database) -> None:
    before, after = row.network_cycles
    assert not replace(row, rtl_cycles=(before, after + 1)).passed
    assert not replace(row, network_cycles=(before, before + 1), rtl_cycles=None).passed


def test_a_device_that_counts_others_is_seen(model: bytes, database: Database) -> None:
    other = TimingDevice(TINY, timing=PRESETS["slow"])
    found = tuned_row("net", model, TINY, database, trials=1, seconds=None, say=print, rtl=other)
    assert found is not None and not found.passed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "trials must be at least 1, not 0"),
        (["--seconds", "-1"], "seconds must be more than 0, not -1"),
        (["--trials", "1", "--variants", "none"], "none"),
    ],
)
def test_bad_input_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "found.json"
    assert main([*arguments, "--json", str(target)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not target.exists()


@pytest.mark.parametrize("arguments", [[], ["nowhere", "--trials", "1"]])
def test_the_command_line_is_checked(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
