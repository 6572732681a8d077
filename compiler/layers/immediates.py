"""`with_placeholders`: layers that differ only in immediates share their code.

Zero points, bounds and the multipliers of an addition are immediates of ALU instructions. They
change no schedule and no other field, so a layer is built with placeholders for them, and `patched`
puts the layer's own values into its segment. Input and output: nodes of the blocked graph, and
segments.
"""

from collections.abc import Mapping
from dataclasses import replace

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.fused import CONV_PREFIX, FUSED
from daedal.compiler.graph.ops.integer import has_wide_result
from daedal.compiler.graph.ops.integer_convolution import Q_CONV2D
from daedal.compiler.graph.ops.integer_elementwise import Q_ADD, Q_REQUANTIZE
from daedal.compiler.graph.ops.looked_up import (
    Q_ADD_LOOKUP,
    Q_CONV2D_LOOKUP,
    Q_REQUANTIZE_LOOKUP,
)
from daedal.isa.instruction import Instruction
from daedal.isa.numerics import wide_bounds
from daedal.isa.table import IMMEDIATE_BITS, Opcode

__all__ = ["Patches", "patched", "with_placeholders"]

_LIMIT = 1 << (IMMEDIATE_BITS - 1)

_PLACEHOLDERS: Mapping[str, tuple[str, int]] = {
    "zero_point": ("immediate", 7),
    "low": ("low", -101),
    "high": ("high", 103),
    CONV_PREFIX + "zero_point": ("immediate", 11),
    CONV_PREFIX + "low": ("low", -107),
    CONV_PREFIX + "high": ("high", 109),
    "multiplier_a": ("immediate", 20011),
    "multiplier_b": ("immediate", 20021),
}
"""By attribute: the field of ALU instructions that holds it, and a value that no other attribute of
the node has in this field."""
assert len(set(_PLACEHOLDERS.values())) == len(_PLACEHOLDERS), "a placeholder stands for one thing"

_STRUCTURAL = {"multiplier_a": (1,), "multiplier_b": (1,)}
"""Values for which there are other instructions: a product with 1 is left out."""

_HEADS = (Q_CONV2D.name, Q_CONV2D_LOOKUP.name)
_TAILS = (Q_ADD.name, Q_ADD_LOOKUP.name, Q_REQUANTIZE.name)

_OPERATORS = frozenset(
    {
        *_HEADS,
        *_TAILS,
        Q_REQUANTIZE_LOOKUP.name,
        *(fused.name for (head, tail), fused in FUSED.items() if tail in _TAILS),
    }
)
"""Operators whose integer attributes are all among `_PLACEHOLDERS`, so that none of their ALU
instructions has a placeholder's value for another reason."""


Patches = Mapping[tuple[str, int], int]
"""By field and placeholder, the value of a layer."""


def with_placeholders(node: Node) -> tuple[Node, Patches]:
    """`node` with placeholders for its immediates, and what `patched` has to put in their places.

    Values that need other instructions, or that do not fit an instruction, stay.
    """
    if node.op not in _OPERATORS:
        return node, {}
    attrs = dict(node.attrs)
    values: dict[tuple[str, int], int] = {}
    wide = {
        prefix
        for prefix in ("", CONV_PREFIX)
        if prefix + "low" in attrs and has_wide_result(attrs, prefix)
    }
    for name, place in _PLACEHOLDERS.items():
        value = attrs.get(name)
        if not isinstance(value, int) or value in _STRUCTURAL.get(name, ()):
            continue
        prefix = CONV_PREFIX if name.startswith(CONV_PREFIX) else ""
        bound = name.removeprefix(prefix)
        if prefix in wide and bound in ("low", "high"):
            # The instruction has the upper byte.
            values[place] = value >> 8
            attrs[name] = wide_bounds(place[1], place[1], 8)[bound == "high"]
        elif -_LIMIT <= value < _LIMIT:
            values[place] = value
            attrs[name] = place[1]
    return replace(node, attrs=attrs), values


def patched(segment: Segment, patches: Patches) -> Segment:
    """`segment` with the values of a layer in place of the placeholders."""
    if not patches:
        return segment
    known: dict[int, Instruction] = {}
    items = []
    for item in segment.instructions:
        template = item.template
        if template.opcode is Opcode.ALU:
            # Instructions share templates, and the segment keeps them alive.
            if id(template) not in known:
                known[id(template)] = _patched(template, patches)
            item = item._replace(template=known[id(template)])
        items.append(item)
    return replace(segment, instructions=tuple(items))


def _patched(template: Instruction, values: Mapping[tuple[str, int], int]) -> Instruction:
    found = {
        name: values[name, value]
        for name, value in template.values.items()
        if (name, value) in values
    }
    return template.replace(**found) if found else template
