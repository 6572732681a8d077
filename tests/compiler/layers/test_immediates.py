"""Layers with placeholders for their immediates: patched, they are what their own values give."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Instance, Segment
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer import has_wide_result
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.layers import layer_code
from daedal.compiler.layers.immediates import with_placeholders
from daedal.compiler.layers.layer_code import LayerCode
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.link.ordering.order import by_need
from daedal.compiler.ops.accelerator.lowering import lower_node
from daedal.isa.numerics import wide_bounds
from daedal.isa.table import IMMEDIATE_BITS
from tests.support.accelerator import micro_variant
from tests.support.levels import Compiled
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

MICRO = micro_variant(inp_bytes=1024, tables=2, wide_requantize=True)
LIMIT = 1 << (IMMEDIATE_BITS - 1)
DRAWN = {
    "zero_point": (0, 1, 7, 11, -128, 127, 20011),
    "low": (-128, -101, -107, 0, 103),
    "high": (127, 103, 109, 0, -101),
    "multiplier": (0, 1, 2, -1, -300, 7, 11, 20011, 20021, LIMIT - 1, -LIMIT),
}
"""By the beginning or end of an attribute's name: placeholders, limits and special values."""
INT8 = [value for value in DRAWN["zero_point"] if value < 128]
"""For zero points of operands."""
SHARED = {
    "q_add",
    "q_add_lookup",
    "q_conv2d",
    "q_conv2d_add",
    "q_conv2d_add_lookup",
    "q_conv2d_lookup",
    "q_conv2d_lookup_add",
    "q_conv2d_requantize",
    "q_requantize",
    "q_requantize_lookup",
}


def plain(segment: Segment) -> object:
    """The segment with numbers in place of instances, which are compared by identity."""
    numbers: dict[Instance, int] = {}
    items = [
        (
            item.template,
            [(numbers.setdefault(row.instance, len(numbers)), *row[1:]) for row in item.rows],
            item.tensor,
            item.uops,
        )
        for item in segment.instructions
    ]
    held = [(item.name, item.memory, item.rows, item.thread, item.copies) for item in numbers]
    return segment.name, dict(segment.tensors), held, items


def redrawn(node: Node, rng: np.random.Generator) -> Node:
    """`node` with other immediates."""
    attrs = dict(node.attrs)
    for name, kind in get_op(node.op).attrs.items():
        for part, choices in DRAWN.items():
            if kind == "int" and (name.endswith(part) or name.startswith(part)):
                value = int(rng.choice(INT8 if name[:-1] == "zero_point_" else choices))
                prefix = name.removesuffix(part)
                if part in ("low", "high") and has_wide_result(node.attrs, prefix):
                    value = wide_bounds(value, value, 8)[part == "high"]
                attrs[name] = value
    return replace(node, attrs=attrs)


def layers(name: str) -> list[tuple[Graph, Node]]:
    graph = OPERATORS[name].graph(Pick.seeded([0]), MICRO)
    blocked = Compiled.of(graph, MICRO).result.launch.graph
    return [(blocked, node) for node in blocked.nodes if not get_op(node.op).is_view]


@pytest.mark.parametrize("name", [name for name, item in OPERATORS.items() if item.runs_on(MICRO)])
def test_patched_code_is_that_of_the_layer_itself(name: str, rng: np.random.Generator) -> None:
    shared = LayerCode(ProgramBuilder(MICRO), for_reuse=True)
    for graph, node in layers(name):
        for _ in range(4 if node.op in SHARED else 1):
            drawn = redrawn(node, rng)
            _, built = LayerCode(ProgramBuilder(MICRO)).of(graph, drawn)
            own = by_need(built)
            _, found = shared.of(graph, drawn)
            assert plain(found) == plain(own), dict(drawn.attrs)


def test_every_integer_of_a_shared_operator_is_an_immediate_or_part_of_its_kind() -> None:
    """Else an ALU instruction could have a placeholder's value for another reason."""
    found = set()
    for name in OPERATORS:
        if not OPERATORS[name].runs_on(MICRO):
            continue
        for _, node in layers(name):
            general, patches = with_placeholders(node)
            if not patches:
                assert general == node
                continue
            found.add(node.op)
            kinds = get_op(node.op).attrs
            kept = {name for name, value in node.attrs.items() if general.attrs[name] == value}
            assert {name for name in kept if kinds[name] == "int"} <= {
                "groups",
                "pad_value",
                "multiplier_a",
                "multiplier_b",
            }
    assert found == SHARED


def test_layers_that_differ_in_immediates_are_lowered_once(rng: np.random.Generator) -> None:
    name = next(name for name in OPERATORS if layers(name)[0][1].op == "q_conv2d")
    ((graph, node),) = layers(name)
    code = LayerCode(ProgramBuilder(MICRO), for_reuse=True)
    with mock.patch.object(layer_code, "lower_node", side_effect=lower_node) as lower:
        made = [code.of(graph, redrawn(node, rng))[1] for _ in range(5)]
    assert lower.call_count == 1
    assert len({str(plain(segment)) for segment in made}) > 1


def test_an_immediate_that_fits_no_instruction_is_refused_as_before() -> None:
    name = next(name for name in OPERATORS if layers(name)[0][1].op == "q_add")
    graph, node = layers(name)[0]
    code = LayerCode(ProgramBuilder(MICRO), for_reuse=True)
    wide = replace(node, attrs={**node.attrs, "multiplier_b": LIMIT})
    with pytest.raises(ScheduleError, match=f"must have at most {IMMEDIATE_BITS} bits"):
        code.of(graph, wide)
