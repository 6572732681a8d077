"""Linking several layers: tokens under random interleavings, memory reuse, determinism, marks."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daedal.common.errors import ScheduleError, VerificationError
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.link import link, linker
from daedal.compiler.link.constants import parameter_bytes, weight_bytes
from daedal.compiler.link.ordering import interleave
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from tests.support.accelerator import memory_of, micro_variant, run_blocked, spec_of
from tests.support.accelerator_operators import add_case, conv_case, pool_case
from tests.support.blocked_network import BlockedNetwork
from tests.support.interleaving import Interleaver, Replay, in_program_order, wandering

SHAPE = (1, 2, 6, 5)


class Network(BlockedNetwork):
    """x -> conv -> t1 -> conv -> t2; t1 + t2 -> t3 -> max pool -> y, as blocked arrays."""

    def __init__(self, variant: Variant, seed: int) -> None:
        rng = np.random.default_rng(seed)
        kernel = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
        super().__init__(
            (conv_case(variant, rng, SHAPE, 2, **kernel), {"x": "x", "y": "t1"}),
            (conv_case(variant, rng, SHAPE, 2, **kernel), {"x": "t1", "y": "t2"}),
            (add_case(variant, rng, SHAPE), {"a": "t1", "b": "t2", "y": "t3"}),
            (pool_case(variant, rng, SHAPE, (2, 2), (2, 2)), {"x": "t3", "y": "y"}),
        )


@settings(max_examples=6)
@given(
    st.sampled_from(
        [
            load_variant("tiny"),
            micro_variant(),
            micro_variant(token_bits=2),
            micro_variant(gemm_uop_bytes=64, alu_uop_bytes=64),
        ]
    ),
    st.integers(0, 2**32 - 1),
)
def test_any_interleaving_computes_the_same(variant, seed):
    network = Network(variant, seed)
    linked = network.link()
    verify(linked.program)
    expected = memory_of(network.reference(), variant)
    np.testing.assert_array_equal(run_blocked(linked.program, {"x": network.x})["y"], expected)
    rng = np.random.default_rng(seed)
    (spec,) = linked.program.inputs
    data = bytes(spec.offset_bytes) + memory_of(network.x, variant).tobytes()
    units, replay = Interleaver(linked.program), Replay(linked.program, {spec.base: data}, rng)
    serial = replay(units.run(in_program_order()).order)
    assert expected.tobytes() in serial
    for _ in range(4):
        run = units.run(wandering(rng))
        assert not run.stuck and not run.left
        assert run.most_tokens < 1 << variant.units.token_bits
        assert replay(run.order) == serial


def test_every_token_is_needed(seed):
    """Without any one of the waits, the verifier finds a race."""
    network = Network(micro_variant(), seed)
    program = network.link().program
    with_pop = [n for n, item in enumerate(program.instructions) if item.pop]
    rng = np.random.default_rng(seed)
    for number in rng.choice(with_pop, 12, replace=False):
        instruction = program.instructions[number]
        unit = next(u for u in Unit if instruction.pop >> u & 1)
        weaker = list(program.instructions)
        weaker[number] = instruction.replace(pop=instruction.pop & ~(1 << unit))
        pushes = [
            n
            for n, item in enumerate(weaker[:number])
            if item.unit is unit and item.push >> instruction.unit & 1
        ]
        source = weaker[pushes[-1]]
        weaker[pushes[-1]] = source.replace(push=source.push & ~(1 << instruction.unit))
        broken = type(program)(
            program.variant,
            tuple(weaker),
            program.constants,
            program.region_bytes,
            program.inputs,
            program.outputs,
        )
        with pytest.raises(VerificationError):
            verify(broken)


def test_linking_twice_gives_the_same_bytes(seed):
    one, two = (Network(micro_variant(), seed).link().program for _ in range(2))
    assert one.to_bytes() == two.to_bytes()


def test_the_report_counts(seed):
    linked = Network(load_variant("tiny"), seed).link()
    report, program = linked.report, linked.program
    assert report.num_instructions == len(program.instructions)
    assert report.num_tokens == sum(item.push.bit_count() for item in program.instructions)
    assert report.num_tokens < report.num_hazards
    assert report.region_bytes == program.region_bytes


def test_units_are_marked_where_the_layer_changes(seed, monkeypatch):
    monkeypatch.setattr(interleave, "SHORTEST_TILE", 1)
    program = Network(load_variant("tiny"), seed).link().program
    assert program.marks == {number: f"layer {number}" for number in range(4)}
    for unit in (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE):
        tags = [item.tag for item in program.instructions if item.unit is unit and item.mark]
        # Layers 1 and 2 are interleaved; every change of the layer is marked.
        assert all(one != two for one, two in pairwise(tags))
        layers = {0, 1} if unit is Unit.GEMM else {0, 1, 2, 3}
        assert set(tags) == layers and tags == [0, *tags[1:-1], max(layers)]
    stores = [item for item in program.instructions if item.opcode is Opcode.STORE]
    assert stores[-1].mark


def test_the_memory_plan_keeps_live_tensors_apart(seed):
    places = Network(load_variant("tiny"), seed).link().places
    # t1 and t2 live until the addition, which writes t3: three tensors at once.
    assert len({places[name].offset_bytes for name in ("t1", "t2", "t3")}) == 3


def test_a_tile_that_is_too_large_names_the_buffer(rng):
    case = conv_case(load_variant("tiny"), rng, (1, 2, 9, 9), 2, (3, 3))
    segment = emit_segment(case.schedule.func, load_variant("tiny"))
    small = load_variant("tiny").replace("small", inp_bytes=64)
    with pytest.raises(ScheduleError, match=r"scratchpad 'inp': buffer 'x_inp' of conv2d needs"):
        link(
            [segment],
            small,
            constants={
                "w": weight_bytes(small, case.arrays["w"]),
                "params": parameter_bytes(small, case.arrays["params"]),
            },
            inputs=[spec_of("x", case.arrays["x"].shape)],
            outputs=[spec_of("y", case.y.shape)],
        )


def test_a_program_has_a_bound(monkeypatch):
    network = Network(micro_variant(), 0)
    uops = (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU)
    instructions = network.link().program.instructions
    # Those that load micro-ops come later, and `Program.check_bounds` counts them.
    length = sum(item.unit is not Unit.LOAD or item.memory not in uops for item in instructions)
    monkeypatch.setattr(linker, "MAX_INSTRUCTIONS", length)
    network.link()
    monkeypatch.setattr(linker, "MAX_INSTRUCTIONS", length - 1)
    with pytest.raises(ScheduleError, match=f"at most {length - 1} instructions, not {length};"):
        network.link()
    monkeypatch.setattr(linker, "MAX_INSTRUCTIONS", 9)
    with pytest.raises(ScheduleError) as error:
        network.link()
    assert re.fullmatch(
        r"a program must have at most 9 instructions, not \d+; compile parts of the model with "
        "--from and --to, or use a larger variant",
        str(error.value),
    )
