"""Virtual threads are executed side by side, with instances of their own and shared operands."""

from collections import Counter

import numpy as np
import pytest

from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import TimingDevice
from tests.support.accelerator import Compiled
from tests.support.accelerator_operators import Case, conv_case

TINY = load_variant("tiny")


def threaded(threads: int, out_blocks: int = 5) -> Case:
    """3 x 3 convolution of 2 to `out_blocks` blocks on 6 x 5; one output block to a thread."""
    tile = ConvTile(
        height=3, width=5, out_blocks=1, in_blocks=1, group=0, keep_inputs=True, threads=threads
    )
    return conv_case(
        TINY,
        np.random.default_rng(7),
        (1, 2, 6, 5),
        out_blocks,
        (3, 3),
        (1, 1),
        (1, 1, 1, 1),
        tile=tile,
    )


def order(compiled: Compiled) -> str:
    """The units of the first tile's instructions, by their initials."""
    return "".join(item.unit.name[0] for item in compiled.segment.instructions)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("renaming", [True, False])
def test_any_number_of_threads_computes_the_same(threads, renaming):
    threaded(threads).check(renaming=renaming)


def test_threads_take_turns():
    # Before: per output block two steps (load weights, multiply), parameters, requantize, store.
    assert order(threaded(1, 2).check()).startswith("LL" + 2 * "LGLGLAS")
    assert order(threaded(2, 2).check()).startswith("LL" + 2 * "LLGG" + "LLAASS")


def test_what_lies_outside_the_threads_is_loaded_once():
    for threads in (1, 3):
        segment = threaded(threads).check().segment
        loads = Counter(item.tensor for item in segment.instructions if item.unit is Unit.LOAD)
        # Two tiles of the map, two input blocks each.
        assert loads["x"] == 2 * 2


def test_without_renaming_threads_hide_what_one_thread_waits_for():
    cycles = {}
    for threads in (1, 2):
        program = threaded(threads, 8).check(interpret=False, renaming=False).program
        device = TimingDevice(TINY)
        loaded = LoadedProgram.place(program, device)
        cycles[threads] = device.launch(program, loaded.bases).cycles
    assert cycles[2] < 0.9 * cycles[1]
