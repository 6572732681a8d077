"""Constants that stay on chip: which, and that a run behind another needs no LOADs of them."""

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.artifact.artifact import Artifact
from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link import linker
from daedal.compiler.link.on_chip.kept_between_launches import (
    KeptBetweenLaunches,
    keep_between_launches,
    rows_to_keep,
)
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.random_programs import random_program
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.runtime.decoder import Decoder
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.executor import Executor
from daedal.runtime.generation import generate
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import timing_with_values
from examples.digits.data import demo_images
from tests.support.decoders import SmallDecoder

DIGITS = Path(__file__).resolve().parents[4] / "examples" / "digits" / "digits_qdq.onnx"
STATES = {"k_cache_*": "k_new_*", "v_cache_*": "v_new_*"}


def tile(rows: int, memory: Memory = Memory.WGT) -> Instance:
    return Instance("w", memory, rows)


def filled(instance: Instance, tensor: str, offset: int = 0) -> SegmentInstruction:
    """Tensors with 4 bits in memory have names that end in 4."""
    kind = LoadMemory[instance.memory.name]
    memory = LoadMemory.WGT_NARROW if tensor.endswith("4") else kind
    load = Instruction.of(
        Opcode.LOAD, memory=memory, rows=1, cols=instance.rows, blocks=1, offset_beats=offset
    )
    rows = RowAccess(instance, "row", ((0, instance.rows),), writes=True)
    return SegmentInstruction(load, (rows,), tensor)


def used(instance: Instance) -> SegmentInstruction:
    rows = RowAccess(instance, "wgt_base", ((0, instance.rows),), reads=True)
    return SegmentInstruction(Instruction.of(Opcode.GEMM), (rows,))


def layers(*tiles: tuple[str, list[Instance]]) -> list[Stretch]:
    """A stretch for each tensor, whose tiles are filled and used in turn."""
    return [
        Stretch(
            (number,),
            tuple(
                (number, make)
                for offset, x in enumerate(mine)
                for make in (filled(x, tensor, offset), used(x))
            ),
        )
        for number, (tensor, mine) in enumerate(tiles)
    ]


def kept(
    parts: list[Stretch], constants: set[str], rows: int, memory: Memory = Memory.WGT
) -> KeptBetweenLaunches:
    return keep_between_launches(parts, constants, {memory: rows})


def tensors(items: Iterator[tuple[int, SegmentInstruction]]) -> list[tuple[int, str]]:
    return [(layer, item.tensor) for layer, item in items if item.tensor is not None]


def test_each_layer_keeps_its_first_tiles() -> None:
    parts = layers(
        ("a", [tile(4), tile(4)]),
        ("state", [tile(4)]),
        ("b", [tile(2), tile(2), tile(2), tile(2)]),
        ("map", [tile(4, Memory.INP)]),
    )
    found = kept(parts, {"a", "b", "map"}, 8)
    assert tensors(found.setup) == [(0, "a"), (2, "b"), (2, "b")]
    assert [instance.rows for instance in found.instances] == [4, 2, 2]
    left = [item for part in found.parts for item in part.items]
    assert tensors(left) == [(0, "a"), (1, "state"), (2, "b"), (2, "b"), (3, "map")]
    # What is used is what the setup has filled, or else what the layer itself fills.
    fills = [item.rows[0].instance for _, item in (*found.setup, *left) if item.tensor]
    uses = [item.rows[0].instance for _, item in left if item.tensor is None]
    assert sorted(map(id, fills)) == sorted(map(id, uses))


def test_weights_of_4_bits_are_kept_behind_the_others() -> None:
    """They take half the time to load."""
    parts = layers(("a4", [tile(2), tile(2)]), ("b", [tile(4), tile(4)]), ("c4", [tile(2)]))
    for rows, expected in ((8, ["b", "b"]), (10, ["a4", "b", "b"]), (6, ["a4", "b"])):
        found = kept(parts, {"a4", "b", "c4"}, rows)
        assert [tensor for _, tensor in tensors(found.setup)] == expected


def test_layers_of_one_kind_keep_their_own_weights() -> None:
    shared = tile(3)
    both = kept(layers(("a", [shared]), ("b", [shared])), {"a", "b"}, 6)
    assert tensors(both.setup) == [(0, "a"), (1, "b")]
    assert len(set(both.instances)) == 2 and shared not in both.instances
    one = kept(layers(("a", [shared]), ("b", [shared])), {"a", "b"}, 5)
    assert tensors(one.setup) == [(0, "a")]
    assert [part.items[0][1].tensor for part in one.parts] == [None, "b"]


def test_nothing_is_kept_where_nothing_fits() -> None:
    parts = layers(("a", [tile(4)]))
    assert kept(parts, {"a"}, 3) == KeptBetweenLaunches(tuple(parts), (), ())


@pytest.mark.parametrize("memory", [Memory.WGT, Memory.INP, Memory.PAR])
def test_layers_share_what_they_load_alike(memory: Memory) -> None:
    """It comes first, as a row saves the LOADs of all of them, even of one layer."""
    parts = layers(
        ("a", [tile(2, memory)]),
        ("b", [tile(2, memory)]),
        ("b", [tile(2, memory)]),
        ("c", [tile(2, memory), tile(1, memory)]),
    )
    again = tile(2, memory)
    items = (*parts[1].items, (1, filled(again, "b")), (1, used(again)))
    parts[1] = Stretch((1,), items)
    found = kept(parts, {"a", "b", "c"}, 3, memory)
    assert tensors(found.setup) == [(1, "b"), (3, "c")]
    left = [item for part in found.parts for item in part.items]
    assert tensors(left) == [(0, "a"), (3, "c")]
    uses = [item.rows[0].instance for _, item in left if item.tensor is None]
    assert uses[1] is uses[2] is uses[3] is found.instances[0]


def test_layers_share_an_input() -> None:
    """Each launch loads it once, and not in its setup."""
    parts = layers(("x", [tile(2)]), ("a", [tile(2)]), ("x", [tile(2)]), ("x", [tile(2)]))
    parts += layers(("y", [tile(1)]))
    found = keep_between_launches(parts, {"a"}, {Memory.WGT: 4}, {"x", "y"})
    assert tensors(found.setup) == [(1, "a")]
    left = [item for part in found.parts for item in part.items]
    assert tensors(left) == [(0, "x"), (0, "y")]
    first, *uses = (item.rows[0].instance for _, item in left)
    assert uses[0] is uses[2] is uses[3] is first and first in found.instances
    assert len(found.instances) == 2


def test_tiles_that_change_are_not_kept() -> None:
    """Those that are filled again, and those that other stretches read."""
    twice, across = tile(2), tile(2)
    refilled = (filled(twice, "a"), used(twice), filled(twice, "b"), used(twice))
    lasting = (filled(across, "a"), used(across))
    for items, lives in ((refilled, frozenset[Instance]()), (lasting, frozenset([across]))):
        part = Stretch((0,), tuple((0, item) for item in items), lives)
        assert kept([part], {"a", "b"}, 8).setup == ()


def test_rows_that_may_be_kept() -> None:
    """A share of those of weights, of a quarter of INP and of a part of PAR."""
    rows = rows_to_keep(load_variant("attention"), 1 / 2, parameters=7 / 8)
    assert rows == {Memory.WGT: 256, Memory.INP: 512, Memory.PAR: 28}


@pytest.fixture(scope="module")
def decoder() -> SmallDecoder:
    return SmallDecoder()


def compiled(decoder: SmallDecoder, *shares: float) -> Artifact:
    with mock.patch.object(linker, "KEPT_SHARES", shares):
        return daedal.compile(
            decoder.quantized(), "attention", states=STATES, cache=False, cpu_levels=()
        )


def logits(artifact: Artifact, decoder: SmallDecoder, device: Device) -> list[np.ndarray]:
    steps = generate(Executor(artifact, device), Decoder(decoder.tables()), [1, 2, 3])
    return [step.logits for step in steps]


def loads(program: Program, memory: LoadMemory) -> int:
    return sum(x.opcode is Opcode.LOAD and x.memory == memory for x in program.instructions)


def test_a_decoder_loads_its_weights_once(decoder: SmallDecoder) -> None:
    keeping, plain = compiled(decoder, 7 / 8), compiled(decoder)
    program = keeping.program
    verify(program)
    assert plain.program.setup == 0 and program.setup > 0
    # Keys and values are states, and change. Layers share parameters.
    for memory in (LoadMemory.WGT, LoadMemory.PAR):
        fewer = loads(plain.program, memory) - loads(program.repeated, memory)
        assert 0 < loads(program.setup_alone, memory) <= fewer
    expected = logits(plain, decoder, FunctionalDevice(plain.variant))
    found = logits(keeping, decoder, FunctionalDevice(keeping.variant))
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]


def test_the_largest_share_that_leaves_enough_is_kept() -> None:
    """With all rows kept, none are left for tiles that are not."""
    programs = []
    for shares in ((1.0,), (1 / 2,), (1.0, 1 / 2)):
        with (
            mock.patch("daedal.compiler.layers.launch.has_states", return_value=True),
            mock.patch.object(linker, "KEPT_SHARES", shares),
        ):
            programs.append(daedal.compile(DIGITS, "tiny", cache=False).program)
    assert programs[0].setup == 0 < programs[1].setup
    assert programs[2] == programs[1]


@pytest.fixture(scope="module")
def digits() -> Artifact:
    """On `tiny`, as if it were launched again and again."""
    with mock.patch("daedal.compiler.layers.launch.has_states", return_value=True):
        return daedal.compile(DIGITS, "tiny", cache=False)


@pytest.mark.rtl
def test_the_rtl_keeps_them_too(digits: Artifact) -> None:
    variant = digits.variant
    images, _labels = demo_images(3)
    timing, rtl = timing_with_values(variant), rtl_device(variant)
    plain = daedal.simulate(daedal.compile(DIGITS, "tiny", cache=False), {"input": images})
    expected = daedal.simulate(digits, {"input": images}, device=timing)
    found = daedal.simulate(digits, {"input": images}, device=rtl)
    assert [x.cycles for x in found.profiles] == [x.cycles for x in expected.profiles]
    for name, tensor in plain.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes()
        assert expected.tensors[name].tobytes() == tensor.tobytes()


def test_another_program_between_two_runs(digits: Artifact) -> None:
    """It overwrites the scratchpads, so that the setup runs again."""
    variant = digits.variant
    device = FunctionalDevice(variant)
    loaded = LoadedProgram.place(digits.program, device)
    other = LoadedProgram.place(random_program(variant, 3).program, device)
    spec = digits.program.inputs[0]
    image = np.random.default_rng(0).integers(-128, 128, spec.shape)
    first, _ = loaded.run({spec.name: image})
    device.launch(other.program, other.bases)
    again, _ = loaded.run({spec.name: image})
    third, _ = loaded.run({spec.name: image})
    for name, tensor in first.items():
        assert again[name].tobytes() == third[name].tobytes() == tensor.tobytes()


def test_cycles_of_the_first_and_of_other_runs(digits: Artifact) -> None:
    program = digits.program
    device = timing_with_values(digits.variant)
    loaded = LoadedProgram.place(program, device)
    first, second, third = [device.launch(program, loaded.bases) for _ in range(3)]
    assert first.cycles is not None and second.cycles is not None
    assert second.cycles == third.cycles < first.cycles
    assert second.units[Unit.LOAD].work < first.units[Unit.LOAD].work
