"""Per-layer profiles: differences of marks, and cycles that sum to the last store."""

from daedal.isa.artifact import Artifact, Layer
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.runtime.layers import layer_profiles

VTA = load_variant("vta")


def mark(tag: int, unit: Unit, cycle: int, busy: int) -> MarkRecord:
    classes = dict.fromkeys(CLASSES, 0) | {
        CycleClass.BUSY: busy,
        CycleClass.IDLE: cycle - busy,
    }
    return MarkRecord(tag, unit, 0, cycle, UnitCounters(classes, busy))


def test_layers_are_differences_of_marks() -> None:
    layers = (Layer(1, "a", "conv", 25600, "a"), Layer(2, "b", "add", 0, "b"))
    marks = (
        mark(1, Unit.GEMM, 180, 100),
        mark(1, Unit.STORE, 200, 20),
        mark(2, Unit.ALU, 230, 7),
        mark(2, Unit.STORE, 260, 50),
    )
    artifact = Artifact(Program(VTA, ()), (), (), layers)
    first, second = layer_profiles(artifact, Profile("rtl", 300, marks=marks))
    assert (first.cycles, second.cycles) == (200, 60)
    assert first.share == 25600 / (200 * 256)
    assert (first.products, second.products) == (100, 0)
    assert (first.bytes_written, second.bytes_written) == (160, 240)
    assert second.units[Unit.ALU].work == 7
    assert sum(second.units[Unit.STORE].classes.values()) == 60


def test_no_marks_no_layers() -> None:
    assert layer_profiles(Artifact(Program(VTA, ()), (), (), ()), Profile("functional")) == []
