"""One entry of `AluOp` is all that an operation needs; entries that no lane can compute fail."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from daedal.common.errors import ToolError
from daedal.isa.alu_operations import AluOp
from daedal.isa.lane import Lane, NumpyLane, Recorder, reduce_lanes
from daedal.isa.variant import load_variant
from daedal.sim.rtl.toolchain import find_icarus
from tests.support.howto import changed_tree, changes

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "alu-operation.md").read_text("utf-8")
FILE = "isa/alu_operations.py"


def tree_with_reduce(folder: Path) -> Path:
    """A source tree in which `AluOp` has the page's entry more, and nothing else is changed."""
    return changed_tree({FILE: changes(PAGE)[FILE]}, folder)


def run_checks(tree: Path, cache_dir: str) -> list[str]:
    """Levels at which the added operation works, as a process of its own found them."""
    result = subprocess.run(
        # -P: the working folder holds a package of the same name.
        [sys.executable, "-P", str(ROOT / "tests" / "support" / "added_operation.py"), cache_dir],
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_one_entry_reaches_documents_assembler_simulator_and_gateware(tmp_path: Path) -> None:
    levels = run_checks(tree_with_reduce(tmp_path / "tree"), "-")
    assert levels == ["documentation", "assembler", "functional", "gateware"]


@pytest.mark.rtl
@pytest.mark.slow
def test_one_entry_reaches_the_emitted_machine(tmp_path: Path) -> None:
    try:
        find_icarus()
    except ToolError as error:
        pytest.skip(str(error))
    assert run_checks(tree_with_reduce(tmp_path / "tree"), str(tmp_path / "cache"))[-1] == "rtl"


def test_an_entry_that_no_lane_can_compute_is_refused_at_once(tmp_path: Path) -> None:
    """Before a simulator runs it: these have any number of adders."""
    path = tree_with_reduce(tmp_path / "tree") / "daedal" / FILE
    text = path.read_text("utf-8")
    assert text.count("lane.less(), lane.x, lane.difference()") == 1
    path.write_text(
        text.replace("lane.less(), lane.x, lane.diff", "lane.less(), lane.total(), lane.diff")
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import daedal.isa.semantics"],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "tree")},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert last == (
        "ValueError: an ALU operation may use the adder once, and REDUCE needs it for difference "
        "and less and total; make it two operations"
    )


def test_codes_fit_and_meanings_are_told() -> None:
    assert [int(op) for op in AluOp] == list(range(len(AluOp)))
    assert all(op.meaning for op in AluOp)


OF_ONE_LANE = [op for op in AluOp if op.formula is not None and not op.over_lanes]


@pytest.mark.parametrize("op", OF_ONE_LANE)
def test_takes_x_says_whether_the_result_depends_on_it(op: AluOp) -> None:
    rng = np.random.default_rng(4)
    x, other, y = rng.integers(-1000, 1000, (3, 50))
    assert op.formula is not None
    same = np.array_equal(op.formula(NumpyLane(x, y, 32)), op.formula(NumpyLane(other, y, 32)))
    assert op.takes_x is not same


@pytest.mark.parametrize("lanes", [1, 2, 8, 64])
def test_reductions_give_every_lane_the_result(lanes: int) -> None:
    """Sums wrap; neither operation takes x, the row that is written."""
    rng = np.random.default_rng(8)
    low, high = -(1 << 31), (1 << 31) - 1
    y = rng.integers(low, high, (20, 3, lanes), endpoint=True)
    y[0], y[1] = low, high
    total = (y.sum(axis=-1, keepdims=True) + (1 << 31)) % (1 << 32) - (1 << 31)
    for op, wanted in (
        (AluOp.SUM_LANES, total),
        (AluOp.MAX_LANES, y.max(axis=-1, keepdims=True)),
    ):
        assert op.formula is not None and op.over_lanes and not op.takes_x
        found = reduce_lanes(op.formula, y, 32)
        np.testing.assert_array_equal(found, np.broadcast_to(wanted, y.shape))


def test_only_machines_with_lane_reductions_have_them() -> None:
    tiny = load_variant("tiny")
    with_them = set(AluOp.of(tiny.replace(lane_reductions=True)))
    assert with_them - set(AluOp.of(tiny)) == {AluOp.SUM_LANES, AluOp.MAX_LANES}


def test_a_formula_that_uses_the_adder_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(lane: Lane) -> object:
        return lane.choose(lane.less(), lane.total(), lane.x)

    monkeypatch.setattr(AluOp.ADD, "formula", twice)
    monkeypatch.delattr(AluOp.ADD, "parts", raising=False)
    with pytest.raises(ValueError, match=r"once, and ADD needs it for less and total; make it"):
        AluOp.ADD.check()
    monkeypatch.delattr(AluOp.ADD, "parts", raising=False)


def test_a_part_that_no_lane_has() -> None:
    with pytest.raises(AttributeError, match=r"^a lane of the ALU has no part 'divide'"):
        Recorder().divide()


def test_a_recorder_remembers_operands_and_parts() -> None:
    recorder = Recorder()
    recorder.choose(recorder.less(), recorder.x, recorder.total())
    assert recorder.used == {"choose", "less", "x", "total"}
    assert AluOp.MIN.parts == {"choose", "less", "x", "y"}
    assert AluOp.ADD.parts == {"total"}
