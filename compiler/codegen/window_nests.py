"""Nests of the operations that reduce sliding windows, and the cycles of such an operation.

Input: the nest of the reduction as it is written. Output: the nests of `windows.Windows.steps`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.concrete import Env
from daedal.compiler.codegen.forms import RegionForm
from daedal.compiler.codegen.instances import ROW_DIMS
from daedal.compiler.codegen.nest import Nest
from daedal.compiler.codegen.padding import Interior
from daedal.compiler.codegen.windows import Windows, WindowStep
from daedal.compiler.tir.expr import Var
from daedal.isa.table import AluOp
from daedal.isa.variant import Variant

__all__ = ["OperationNest", "operation_cycles", "window_nests"]


@dataclass(frozen=True)
class OperationNest:
    """``ACC[dst] = operation(ACC[dst], ACC[src])`` in a nest."""

    operation: AluOp
    nest: Nest


def operation_cycles(variant: Variant, distance: int) -> int:
    """Cycles of an operation on two accumulator rows that are `distance` rows apart.

    If both rows are in one bank they are read one after the other. Rows of one half are in the same
    bank if their distance is a multiple of the banks of that half.
    """
    elements = variant.array.batch * variant.array.block_out
    groups = -(-elements // variant.units.alu_lanes)
    banks = max(1, variant.memory.acc_banks // 2)
    return groups + (distance % banks == 0)


def window_nests(
    nest: Nest,
    along: Sequence[bool],
    windows: Windows,
    variant: Variant,
    inside: range | None = None,
) -> Iterator[OperationNest]:
    """The operations that compute the reduction `nest` in the rows of its operand ``src``.

    `along` marks the loops that go from window to window; `inside` is as in `Windows.steps`.
    """
    if 0 in nest.extents:
        return
    reduce = [k for k, extent in enumerate(nest.extents) if nest.reduce[k] and extent > 1]
    moving = [k for k, extent in enumerate(nest.extents) if along[k] and extent > 1]
    if len(reduce) != 1 or len(moving) > 1 or nest.extents[reduce[0]] != windows.kernel:
        raise ScheduleError("a loop over windows, or over their elements, must not be split")
    pitch = nest.steps["src"][reduce[0]]
    count = nest.extents[moving[0]] if moving else 1
    others = [k for k in range(len(nest.extents)) if k not in (*reduce, *moving)]
    rest = nest.select(others)
    assert rest.steps["dst"] == rest.steps["src"], "the result lies in the rows of the operand"
    cycles = partial(_cycles, variant, pitch)
    for step in windows.steps(count, cycles, inside):
        yield OperationNest(step.operation, _nest(step, rest, nest.bases["src"], pitch))


def inside_loops(
    nest: Nest,
    source: RegionForm,
    interior: Interior,
    env: Env,
    ranges: Mapping[Var, range],
    dim: int,
) -> tuple[Nest, range]:
    """`nest` without the iterations that only read padding.

    Also returns the positions along `dim` that are not padding, from the first window on. `ranges`
    are the loops of the nest.
    """
    inside = range(0)
    start = {**env, **{var: values.start for var, values in ranges.items()}}
    loops = list(ranges)
    for number, (minimum, part) in enumerate(zip(source.minima, interior.ranges, strict=True)):
        first = minimum.value(start)
        if number == dim:
            inside = range(part.start - first, part.stop - first)
            continue
        moving = [(var, factor) for var, factor in minimum.at(env).terms if len(ranges[var]) > 1]
        if len(moving) == 1 and moving[0][1] == 1 and number < len(source.minima) - ROW_DIMS:
            loop = loops.index(moving[0][0])
            extent = nest.extents[loop]
            low = min(max(0, part.start - first), extent)
            high = max(low, min(extent, part.stop - first))
            nest = replace(
                nest,
                extents=(*nest.extents[:loop], high - low, *nest.extents[loop + 1 :]),
                bases={
                    name: row + low * nest.steps[name][loop] for name, row in nest.bases.items()
                },
            )
    return nest, inside


def _cycles(variant: Variant, pitch: int, distance: int) -> int:
    return operation_cycles(variant, distance * pitch)


def _nest(step: WindowStep, rest: Nest, base: int, pitch: int) -> Nest:
    """The loop of `step` around the loops of `rest`; row `base` is position 0."""
    advance, first = step.stride * pitch, 0
    if step.descending:
        first, advance = (step.count - 1) * advance, -advance
    ends = {"dst": step.target, "src": step.source}
    return Nest(
        (step.count, *rest.extents),
        {name: base + position * pitch + first for name, position in ends.items()},
        {name: (advance, *rest.steps[name]) for name in ends},
        (step.chained, *rest.reduce),
    )
