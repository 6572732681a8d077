"""Who wrote what each LOAD reads, and how much memory holds something at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ProgramError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.pipeline import compile_graph
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.table import BASES, Opcode
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import load_variant
from daedal.runtime.layers import layer_tags
from daedal.runtime.memory_flow import HOST, MemoryFlow
from tests.support.memory_programs import (
    TINY,
    WORD_BYTES,
    load,
    marked,
    random_program,
    reads,
    spec,
    store,
)
from tests.support.small_networks import branches

INPUTS, OUTPUTS, WORKSPACE = (BASES.index(name) for name in ("inputs", "outputs", "workspace"))


def program(*layers: list) -> Program:
    """One input and one output of two words, a workspace of 16."""
    return Program(
        TINY,
        marked(layers),
        region_bytes=(0, 2 * WORD_BYTES, 2 * WORD_BYTES, 16 * WORD_BYTES),
        inputs=(spec("x", INPUTS, 0, 2),),
        outputs=(spec("y", OUTPUTS, 0, 2),),
        marks={tag: str(tag) for tag in range(len(layers))},
    )


def test_a_chain_shares_words() -> None:
    """a at 0-3, b at 4-7, c at 0-3 again: at most two of them are needed."""
    flow = MemoryFlow(
        program(
            [load(INPUTS, 0, 2), store(WORKSPACE, 0, 4)],
            [load(WORKSPACE, 0, 4), store(WORKSPACE, 4, 4)],
            [load(WORKSPACE, 4, 4), store(WORKSPACE, 0, 4)],
            [load(WORKSPACE, 0, 4), store(OUTPUTS, 0, 2)],
        )
    )
    assert flow.layers == [HOST, 0, 0, 1, 1, 2, 2, 3, None]
    assert flow.workspace_needed_bytes == 8 * WORD_BYTES
    # What the first and the third layer wrote lies in the same words and is not the same.
    assert len({flow.group(tag) for tag in (0, 1, 2, HOST)}) == 4
    assert flow.group(3) == flow.group(HOST)
    first = flow.first_words[WORKSPACE]
    assert flow.windows[flow.group(0)] == flow.windows[flow.group(2)] == (first, first + 4)


def test_a_concatenation_that_nobody_copies_stays_together() -> None:
    flow = MemoryFlow(
        program(
            [load(INPUTS, 0, 2), store(WORKSPACE, 2, 2)],
            [load(INPUTS, 0, 2), store(WORKSPACE, 4, 3)],
            [load(WORKSPACE, 2, 5), store(OUTPUTS, 0, 2)],
        )
    )
    assert flow.group(0) == flow.group(1) != flow.group(HOST)
    first = flow.first_words[WORKSPACE]
    assert flow.windows[flow.group(0)] == (first + 2, first + 7)
    assert flow.workspace_needed_bytes == 5 * WORD_BYTES


def test_rows_that_lie_apart_are_words_between_which_others_lie() -> None:
    """Two columns of four, and the two beside them, of three rows."""
    flow = MemoryFlow(
        program(
            [load(INPUTS, 0, 2), *(store(WORKSPACE, at, 2) for at in (0, 4, 8))],
            [load(INPUTS, 0, 2), *(store(WORKSPACE, at, 2) for at in (2, 6, 10))],
            [load(WORKSPACE, 0, 12), store(OUTPUTS, 0, 2)],
        )
    )
    block = WORD_BYTES
    for layer in (0, 1):
        place = TensorSpec(
            "a", WORKSPACE, 2 * layer * WORD_BYTES, (1, block, 3, 2), 8, 1, block, pitch=4
        )
        assert flow.last_layers(place) == {layer}
        assert flow.last_layers(replace(place, pitch=0)) == {0, 1}


def test_what_outlives_other_layers_is_counted_with_them() -> None:
    """A residual: 4 words for three layers, over 3 and then 5 that live for two."""
    flow = MemoryFlow(
        program(
            [load(INPUTS, 0, 2), store(WORKSPACE, 0, 4)],
            [load(WORKSPACE, 0, 4), store(WORKSPACE, 8, 3)],
            [load(WORKSPACE, 8, 3), store(WORKSPACE, 11, 5)],
            [load(WORKSPACE, 11, 5), load(WORKSPACE, 0, 4), store(OUTPUTS, 0, 2)],
        )
    )
    assert flow.workspace_needed_bytes == (4 + 3 + 5) * WORD_BYTES


@pytest.mark.parametrize(
    "wrong",
    [load(WORKSPACE, 15, 2), store(OUTPUTS, 1, 2), load(INPUTS, 1 << 20, 1)],
    ids=["beyond the end", "into the next region", "far away"],
)
def test_a_program_that_leaves_its_memory(wrong: Instruction) -> None:
    with pytest.raises(ProgramError, match=r"must stay in region '\w+' of its program"):
        MemoryFlow(program([wrong, store(OUTPUTS, 0, 1), load(INPUTS, 0, 1)]))


def test_a_program_without_marks() -> None:
    bare = replace(program(), instructions=(store(OUTPUTS, 0, 1),))
    with pytest.raises(ProgramError, match="belong to a marked layer, and this one does not"):
        MemoryFlow(bare)


@given(st.integers(0, 2**32 - 1))
def test_layers_are_those_whose_words_are_read(seed: int) -> None:
    made, _ = random_program(np.random.default_rng(seed))
    flow = MemoryFlow(made)
    tags = layer_tags(made)
    seen = iter(reads(made)[0])
    for item, layer in zip(made.instructions, flow.layers, strict=True):
        if item.opcode is Opcode.LOAD:
            owners = {HOST if x < 0 else tags[x // 1000 - 1] for x in next(seen) if x}
            assert (layer in owners) if owners else layer is None
            assert len({flow.group(owner) for owner in owners if owner is not None}) <= 1
    assert flow.workspace_needed_bytes <= made.region_bytes[WORKSPACE]


@pytest.mark.parametrize("variant", ["tiny", "vta"])
@pytest.mark.parametrize("channels", [(16, 32, 16), (5, 7, 20)], ids=["views", "copies"])
def test_the_linker_needs_as_much(
    rng: np.random.Generator, variant: str, channels: tuple[int, ...]
) -> None:
    """Its bound comes from tensors and their lifetimes, this one from the program's own words."""
    model = load_onnx(branches(rng, *channels).SerializeToString())
    (launch,) = compile_graph(model, load_variant(variant)).launches
    needed = MemoryFlow(launch.program).workspace_needed_bytes
    assert needed == launch.report.workspace_bound_bytes > 0
