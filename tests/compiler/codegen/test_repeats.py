"""Nests that are executed again: the same instructions as without remembering any."""

from collections import Counter
from unittest import mock

import numpy as np
import pytest

from daedal.compiler.codegen import accelerator
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.edges import Edge
from daedal.compiler.codegen.forms import Form
from daedal.compiler.codegen.operations import OperationBuilder
from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.tir.expr import Var
from daedal.compiler.tir.stmt import For, Seq
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from tests.support.accelerator_operators import conv_case
from tests.support.tiled_operators import MICRO, NAMES, compiled_operator

pytestmark = pytest.mark.xdist_group("tiled-operators")

TINY = load_variant("tiny")
SEEDS = range(2)


def without_memory(builder: OperationBuilder) -> OperationBuilder:
    return builder


@pytest.mark.parametrize("name", NAMES)
def test_segments_are_the_same(name: str) -> None:
    for seed in SEEDS:
        for layer in compiled_operator(name, seed).layers:
            part = layer.lowered
            arguments = part.schedule.func, MICRO, part.tensors
            found = emit_segment(*arguments, views=part.views)
            with mock.patch.object(accelerator, "Repeats", without_memory):
                expected = emit_segment(*arguments, views=part.views)
            assert segment_text(found) == segment_text(expected), f"seed {seed}"


def test_a_nest_is_built_once_where_only_its_first_rows_differ(rng: np.random.Generator) -> None:
    """Sums that begin and those that go on, in tiles within the map and at its end."""
    case = conv_case(TINY, rng, (1, 32, 8, 8), 16, (1, 1))
    built: Counter[str] = Counter()
    build = OperationBuilder.build

    def counted(self, form, env, live):
        built[str(form.annotations["intrin"])] += 1
        return build(self, form, env, live)

    with mock.patch.object(OperationBuilder, "build", counted):
        segment = emit_segment(case.schedule.func, TINY)
    products = sum(item.unit is Unit.GEMM for item in segment.instructions)
    assert built["gemm"] <= 4 < products / 10


@pytest.mark.parametrize("pad_value", [0, 5])
def test_each_nest_is_built_once_where_its_rows_are_the_same(
    rng: np.random.Generator, pad_value: int
) -> None:
    """With pads of 0 products are left out at the borders: other instructions than inside."""
    case = conv_case(TINY, rng, (1, 4, 16, 15), 4, (3, 3), pads=(1, 1, 1, 1), pad_value=pad_value)
    built: Counter[str] = Counter()
    build = OperationBuilder.build

    def counted(self, form, env, live):
        built[str(form.annotations["intrin"])] += 1
        return build(self, form, env, live)

    with mock.patch.object(OperationBuilder, "build", counted):
        segment = emit_segment(case.schedule.func, TINY)
        fewer = built.total()
        with mock.patch.object(accelerator, "Repeats", without_memory):
            expected = emit_segment(case.schedule.func, TINY)
    assert segment_text(segment) == segment_text(expected)
    assert fewer < 0.5 * (built.total() - fewer), built


@pytest.mark.parametrize(
    ("outer", "inside", "known"),
    [(0, range(6), None), (1, range(6), 4), (0, range(5), 0), (0, range(1, 9), 0)],
)
def test_a_place_counts_where_its_loops_reach_padding(
    outer: int, inside: range, known: int | None
) -> None:
    """The index ``4 * outer + inner`` with six iterations of `inner`."""
    variables = Var("outer"), Var("inner")
    form = Form(((variables[0], 4), (variables[1], 1)), 0)
    edge = Edge.of(form, inside, [For(variables[1], 6, Seq(()))])
    assert edge.key({variables[0]: outer}) == known
