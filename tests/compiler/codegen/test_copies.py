"""Copies that are executed again: the same instructions as without remembering any."""

from collections import Counter
from unittest import mock

import numpy as np
import pytest

from daedal.compiler.codegen import accelerator
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.codegen.transfers import TransferBuilder
from daedal.isa.variant import load_variant
from tests.support.accelerator_operators import conv_case
from tests.support.tiled_operators import MICRO, NAMES, compiled_operator

pytestmark = pytest.mark.xdist_group("tiled-operators")

TINY = load_variant("tiny")
SEEDS = range(2)


def without_memory(builder: TransferBuilder) -> TransferBuilder:
    return builder


@pytest.mark.parametrize("name", NAMES)
def test_segments_are_the_same(name: str) -> None:
    for seed in SEEDS:
        for layer in compiled_operator(name, seed).layers:
            part = layer.lowered
            arguments = part.schedule.func, MICRO, part.tensors
            found = emit_segment(*arguments, views=part.views)
            with mock.patch.object(accelerator, "Copies", without_memory):
                expected = emit_segment(*arguments, views=part.views)
            assert segment_text(found) == segment_text(expected), f"seed {seed}"


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 0, 2)])
def test_each_copy_is_built_once_for_each_border(
    rng: np.random.Generator, pads: tuple[int, int, int, int]
) -> None:
    """Tiles inside a map share their LOADs; those at a border have other pads."""
    case = conv_case(TINY, rng, (1, 4, 40, 41), 4, (3, 3), pads=pads, pad_value=3)
    built: Counter[str] = Counter()
    build = TransferBuilder.build

    def counted(self, form, env, live):
        built[form.realize.block.name] += 1
        return build(self, form, env, live)

    with mock.patch.object(TransferBuilder, "build", counted):
        segment = emit_segment(case.schedule.func, TINY)
        fewer = built.total()
        with mock.patch.object(accelerator, "Copies", without_memory):
            expected = emit_segment(case.schedule.func, TINY)
    assert segment_text(segment) == segment_text(expected)
    assert fewer < 0.75 * (built.total() - fewer), (fewer, built)
