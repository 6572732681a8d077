"""Requantizes results again, into the accumulators, instead of loading what was stored.

The mean of a map adds results of the convolution before it. These are written to OUT and stored,
and LOAD brings them back into the accumulators. While the accumulators of a tile are there,
REQUANTIZE can also write its results to other accumulators: the same values, without the bus.

Before::

    ALU    P[0:49] = requantize(A[0:49])            # OUT
    STORE  y[0:49] = P[0:49]
    LOAD   C[0:7]  = y[0:7]
    ALU    S[0:7] += C[0:7]

After::

    ALU    P[0:49] = requantize(A[0:49])
    STORE  y[0:49] = P[0:49]
    ALU    C[0:7]  = requantize(A[0:7])             # accumulators
    ALU    S[0:7] += C[0:7]

The STOREs stay, since other layers, or checks, may read the tensor. Input and output: the
instructions of two layers in program order.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip.renumber import rows_numbered, runs_of
from daedal.compiler.link.on_chip.row_parts import LoadedRows, RowAddresses
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.instruction import Instruction
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LOOPS, AluOp, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["requantized_rows"]

Items = Sequence[SegmentInstruction]

_OWN_FIELDS = ("operation", "saturate", "immediate", "low", "high")
"""What a REQUANTIZE has besides its rows."""


class _Source(NamedTuple):
    """Where a result comes from: the number of the REQUANTIZE, its accumulators and parameters."""

    number: int
    src: int
    par: int


def requantized_rows(
    first: Items, second: Items, variant: Variant, aliases: Mapping[str, Alias]
) -> list[SegmentInstruction] | None:
    """The second layer with a REQUANTIZE for each LOAD of what the first one has stored; None if
    there is no such LOAD, or one of them cannot be replaced."""
    addresses = RowAddresses(variant, aliases, Memory.OUT)
    loads = [item for item in second if item.unit is Unit.LOAD and item.tensor is not None]
    groups = {addresses.group(item).group for item in loads}
    stores = [item for item in first if item.unit is Unit.STORE]
    stored = {addresses.group(item).group for item in stores}
    if not groups & stored or any(_memory(item) != OutMemory.OUT for item in stores):
        return None
    sources = _sources(first)
    results: dict[tuple[str, int], _Source] = {}
    for item in stores:
        group, words = addresses.of(item)
        (access,) = item.rows
        for row, word in zip(LoadedRows.of(item).rows, words, strict=True):
            source = sources.get((access.instance, row))
            if source is None:
                return None
            results[group, word] = source
    found: list[SegmentInstruction] = []
    for item in second:
        if item.unit is not Unit.LOAD or addresses.group(item).group not in stored:
            found.append(item)
            continue
        again = _again(item, first, results, addresses)
        if again is None:
            return None
        found.append(again)
    return found


def _memory(item: SegmentInstruction) -> int:
    return item.template.values.get("memory", 0)


def _sources(items: Items) -> dict[tuple[Instance, int], _Source]:
    """By row of OUT, the REQUANTIZE that writes it, if its operands stay as they were."""
    last: dict[Instance, int] = {}
    for number, item in enumerate(items):
        for access in item.rows:
            if access.writes:
                last[access.instance] = number
    found: dict[tuple[Instance, int], _Source] = {}
    for number, item in enumerate(items):
        get = item.template.values.get
        if item.unit is not Unit.ALU or get("operation") != AluOp.REQUANTIZE or get("wide"):
            continue
        fields = {access.field: access.instance for access in item.rows}
        target = fields.get("dst_base")
        if get("destination", 0) != OutMemory.OUT or target is None or len(fields) < len(item.rows):
            continue
        if any(last.get(x, -1) > number for name, x in fields.items() if name != "dst_base"):
            continue
        rows = [rows_numbered(item, name).ravel().tolist() for name in ("dst", "src", "par")]
        for dst, src, par in zip(*rows, strict=True):
            found[target, dst] = _Source(number, src, par)
    return found


def _again(
    load: SegmentInstruction,
    first: Items,
    results: Mapping[tuple[str, int], _Source],
    addresses: RowAddresses,
) -> SegmentInstruction | None:
    """The REQUANTIZE that writes what a LOAD loads; None if one alone cannot."""
    padded = any(load.template.values.get(f"pad_{x}") for x in ("top", "bottom", "left", "right"))
    group, words = addresses.of(load)
    sources = [results.get((group, word)) for word in words]
    known = [source for source in sources if source is not None]
    if padded or _memory(load) != LoadMemory.ACC_NARROW or not known or len(known) < len(sources):
        return None
    (number, *others) = {source.number for source in known}
    if others:
        return None
    item, target = first[number], LoadedRows.of(load)
    instances = {access.field: access.instance for access in item.rows}
    values = {name: item.template.values.get(name, 0) for name in _OWN_FIELDS}
    values["destination"] = int(OutMemory.ACC)
    values |= {f"extent{loop}": extent for loop, extent in enumerate(target.extents)}
    accesses = []
    rows = {
        "dst": target.rows,
        "src": [source.src for source in known],
        "par": [source.par for source in known],
    }
    for name, numbers in rows.items():
        array = np.array(numbers).reshape(target.extents)
        factors = _factors(array)
        if factors is None:
            return None
        values[f"{name}_base"] = numbers[0]
        values |= {f"{name}_factor{loop}": factor for loop, factor in enumerate(factors)}
        written = name == "dst"
        instance = load.rows[0].instance if written else instances[f"{name}_base"]
        runs = runs_of(array)
        accesses.append(RowAccess(instance, f"{name}_base", runs, not written, written))
    template = Instruction.of(Opcode.ALU, **values)
    return SegmentInstruction(template, tuple(accesses), uops=((0, 0, 0),))


def _factors(rows: IntArray) -> list[int] | None:
    """What each loop adds to a row; None if loops do not reach these rows."""
    found = []
    expected = rows[:1, :1, :1]
    for loop in range(LOOPS):
        line = np.moveaxis(rows, loop, 0)[:, 0, 0]
        step = int(line[1] - line[0]) if len(line) > 1 else 0
        shape = [-1 if axis == loop else 1 for axis in range(LOOPS)]
        expected = expected + (np.arange(len(line)) * step).reshape(shape)
        found.append(step)
    return found if min(found) >= 0 and (expected == rows).all() else None
