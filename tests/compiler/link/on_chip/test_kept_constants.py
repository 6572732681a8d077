"""Constants that are loaded several times and stay on chip: which ones, and the same results."""

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.checking.layer_check import check_layers
from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link import linker
from daedal.compiler.link.on_chip import kept_constants
from daedal.compiler.link.on_chip.kept_constants import keep_constants
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.compiler.link.placement.place import Misfit, Placement
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from tests.support.rtl_cycles import check_rtl

TINY = load_variant("tiny")
ROWS = scratchpad(TINY, Memory.WGT).depth_rows
CONSTANTS = ("w",)
DIGITS = Path(__file__).resolve().parents[4] / "examples" / "digits" / "digits_qdq.onnx"


def filled(instance: Instance, offset: int, tensor: str = "w") -> SegmentInstruction:
    load = Instruction.of(
        Opcode.LOAD,
        memory=LoadMemory.WGT,
        rows=1,
        cols=instance.rows,
        blocks=1,
        offset_beats=offset,
    )
    return SegmentInstruction(
        load, (RowAccess(instance, "row", ((0, instance.rows),), writes=True),), tensor
    )


def used(instance: Instance, steps: int = 1) -> SegmentInstruction:
    loops = {"extent0": steps, "extent1": 1, "extent2": 1}
    rows = RowAccess(instance, "wgt_base", ((0, instance.rows),), reads=True)
    return SegmentInstruction(Instruction.of(Opcode.GEMM, **loops), (rows,), uops=((0, 0, 0, 0),))


def stretch(
    *tiles: tuple[int, int], tensor: str = "w", steps: int = 1, again: bool = False
) -> Stretch:
    """Tiles of so many rows from an offset, each filled and used; `again`: and filled once more."""
    items = []
    for rows, offset in tiles:
        mine = Instance("w", Memory.WGT, rows)
        items += [filled(mine, offset, tensor), used(mine, steps)]
        if again:
            items += [filled(mine, offset + 1, tensor), used(mine, steps)]
    return Stretch((0,), tuple((0, item) for item in items))


def loads(part: Stretch) -> list[int]:
    """The offsets that are loaded."""
    items = [item for _, item in part.items if item.unit is Unit.LOAD]
    return [item.template.values.get("offset_beats", 0) for item in items]


def test_what_is_loaded_again_stays() -> None:
    part = stretch((8, 0), (8, 64), (8, 0), (8, 64), (8, 0), (8, 128))
    found = keep_constants(part, CONSTANTS, TINY)
    assert loads(found) == [0, 64, 128]
    assert loads(part) == [0, 64, 0, 64, 0, 128]
    instances = [item.rows[0].instance for _, item in found.items if item.unit is Unit.GEMM]
    assert instances[0] is instances[2] is instances[4]
    assert instances[1] is instances[3]
    assert len(set(instances)) == 3


@pytest.mark.parametrize(
    "part",
    [
        stretch((8, 0), (4, 0)),  # other rows
        stretch((8, 0), (8, 64)),  # other words
        stretch((8, 0), (8, 0), tensor="x"),  # a tensor that a layer computes
        stretch((8, 0), (8, 0), again=True),  # rows that are filled twice
        stretch((8, 0), (8, 0), steps=10_000),  # the multipliers have more to do than the bus
        stretch((ROWS // 2, 0), (ROWS // 2, 0)),  # too many rows for what others need
        stretch((8, 0), (ROWS // 2, 64), (8, 0), (ROWS // 2, 128)),  # two of these would not fit
    ],
)
def test_all_others_are_loaded_again(part: Stretch) -> None:
    assert keep_constants(part, CONSTANTS, TINY) is part


def test_instances_that_live_across_stretches_stay_as_they_are() -> None:
    part = stretch((8, 0), (8, 0))
    first = part.items[0][1].rows[0].instance
    across = replace(part, kept=frozenset([first]))
    assert keep_constants(across, CONSTANTS, TINY) is across


def test_a_few_words_of_many_are_loaded_again() -> None:
    """LOADs that come at other times cost more than a word in twenty."""
    others = [(8, 64 * n) for n in range(1, 20)]
    assert loads(keep_constants(stretch((8, 0), (8, 0)), CONSTANTS, TINY)) == [0]
    part = stretch((8, 0), (8, 0), *others)
    assert keep_constants(part, CONSTANTS, TINY) is part


def model(rng: np.random.Generator) -> bytes:
    """A convolution with few products for each pixel, whose tiles all need the same parameters."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 8, 48, 48)), 0.05, -3)
    values = rng.integers(-127, 128, (8, 8, 1, 1)).astype(np.int8)
    y = maker.op("Conv", x, maker.weights(values, 0.01))
    return maker.model(maker.requantized(y, 0.05, 0)).SerializeToString()


def compiled(data: bytes) -> Artifact:
    artifact = daedal.compile(data, TINY, host=None, cache=False, cpu_levels=())
    verify(artifact.program)
    return artifact


def parameters(artifact: Artifact) -> int:
    """LOADs of parameters in a program."""
    return sum(
        item.opcode is Opcode.LOAD and item.memory == LoadMemory.PAR
        for item in artifact.program.instructions
    )


@pytest.mark.rtl
def test_fewer_loads_and_the_same_results(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ALU of `tiny` has more to do than the bus, so it gains nothing."""
    monkeypatch.setattr(kept_constants, "LEAST_BUSY", 0)
    data = model(rng)
    artifact = compiled(data)
    x = {"x": rng.normal(0, 1, (1, 8, 48, 48)).astype(np.float32)}
    assert check_layers(artifact, data, x).passed
    assert parameters(artifact) == 1
    check_rtl(artifact, x)
    monkeypatch.setattr(linker, "keep_constants", lambda part, *_: part)
    assert parameters(compiled(data)) > 3


def test_layers_that_the_bus_bounds_take_fewer_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.zeros((1, 1, 8, 8), np.float32)
    cycles = []
    for keep in (keep_constants, lambda part, *_: part):
        monkeypatch.setattr(linker, "keep_constants", keep)
        artifact = daedal.compile(DIGITS, "vta", host=None, cache=False, cpu_levels=())
        verify(artifact.program)
        found = daedal.simulate(artifact, {"input": images}, device="timing")
        cycles.append(found.profiles[0].cycles or 0)
    assert cycles[0] < 0.98 * cycles[1]


def test_a_stretch_that_does_not_fit_loads_again(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are kept may leave those of other tiles in pieces."""
    monkeypatch.setattr(kept_constants, "LEAST_BUSY", 0)
    data, real = model(rng), Placement.run

    def run(self, parts, segments):
        for part in parts:
            count = sum(
                item.unit is Unit.LOAD and item.rows[0].instance.memory is Memory.PAR
                for _, item in part.items
            )
            if count == 1:
                raise Misfit("does not fit", part)
        return real(self, parts, segments)

    with mock.patch.object(Placement, "run", run):
        artifact = compiled(data)
    assert parameters(artifact) > 3
