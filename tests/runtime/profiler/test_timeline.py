"""Timelines: intervals without gaps, exact cycles, layers as the compiler marked them."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.registers import CLASSES
from daedal.isa.table import Unit
from daedal.runtime.layers import LAYER_UNITS, layer_profiles, layer_tags
from daedal.runtime.profiler.timeline import mark_all, timeline
from tests.support.profiles import random_launch


def test_all_but_finish_are_marked_with_their_layers() -> None:
    program = random_launch(np.random.default_rng(1)).artifact.program
    marked = mark_all(program)
    assert [item.mark for item in marked.instructions] == [1] * (len(marked.instructions) - 1) + [0]
    assert [item.tag for item in marked.instructions[:-1]] == layer_tags(program)[:-1]
    plain = [item.replace(mark=0, tag=0) for item in program.instructions]
    assert [item.replace(mark=0, tag=0) for item in marked.instructions] == plain


@given(seed=st.integers(0, 2**32 - 1))
def test_intervals_follow_each_other_and_keep_every_cycle(seed: int) -> None:
    launch = random_launch(np.random.default_rng(seed))
    found = timeline(launch.artifact.program, launch.marked)
    for unit in LAYER_UNITS:
        at = 0
        for item in found.lane(unit):
            assert item.begin == at
            at = item.end
            spans = list(item.spans())
            assert sum(end - begin for _, begin, end in spans) == item.counters.cycles
            assert all(a[2] == b[1] for a, b in itertools.pairwise(spans))
            assert item.begin <= item.work_begin <= item.end
        for kind in CLASSES:
            for layer in layer_profiles(launch.artifact, launch.plain):
                tag = layer.layer.tag
                spent = [x.counters.classes[kind] for x in found.lane(unit) if x.tag == tag]
                assert sum(spent) == layer.units[unit].classes[kind]


@given(seed=st.integers(0, 2**32 - 1))
def test_layers_of_a_timeline_are_those_of_the_profile(seed: int) -> None:
    """Both runs of a made launch take the same time, so the layers do too."""
    launch = random_launch(np.random.default_rng(seed))
    spans = timeline(launch.artifact.program, launch.marked).layer_spans()
    layers = layer_profiles(launch.artifact, launch.plain)
    assert [span.tag for span in spans] == [item.layer.tag for item in layers]
    assert [span.end - span.begin for span in spans] == [item.cycles for item in layers]


def test_labels_say_what_is_done() -> None:
    launch = random_launch(np.random.default_rng(2))
    found = timeline(launch.artifact.program, launch.marked)
    labels = {item.unit: item.label for item in found.intervals}
    assert labels[Unit.LOAD] == "LOAD INP" and labels[Unit.STORE] == "STORE OUT"
    assert labels[Unit.GEMM] == "GEMM dense"
