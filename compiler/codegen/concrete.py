"""Nests with row numbers, from a block's forms with constant outer loops and live buffers.

If a select in an index depends on one loop, that loop is split. Loops that are combined in a
condition or in another non-affine index are enumerated, outermost first. What remains is affine and
has constant ranges.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from daedal.compiler.codegen.cuts import decided, first_cut
from daedal.compiler.codegen.forms import BlockForm, Form, RegionForm, form_of
from daedal.compiler.codegen.instances import ROW_DIMS, Live
from daedal.compiler.codegen.nest import Nest
from daedal.compiler.codegen.padding import Interior, without_padding
from daedal.compiler.codegen.zero_weights import ZeroWeights
from daedal.compiler.tir.expr import Var
from daedal.compiler.tir.stmt import For

__all__ = ["Env", "concrete_nests", "loop_ranges", "rolled"]

Env = Mapping[Var, int]


def concrete_nests(
    form: BlockForm,
    env: Env,
    live: Live,
    operands: Mapping[str, RegionForm],
    padded: tuple[str, Interior] | None = None,
    zeros: ZeroWeights | None = None,
) -> Iterator[Nest]:
    """The nests of `form`; `env` binds every loop outside it.

    Row numbers are relative to the instance that holds each operand. `padded` names an operand
    of a sum, or of a sum of products, that is 0 outside its interior; these zeros are left out.
    So are products with the weights `zeros`.
    """
    nests = (
        nest
        for inner, ranges, settled in _settled(form, env, operands, {}, zeros)
        for nest in _pieces(form, inner, ranges, live, settled, padded)
    )
    yield from rolled(nests)


def _pieces(
    form: BlockForm,
    env: Env,
    ranges: dict[Var, range],
    live: Live,
    operands: Mapping[str, RegionForm],
    padded: tuple[str, Interior] | None,
) -> Iterator[Nest]:
    """One nest, or several that leave out the zeros of `padded`."""
    whole = _nest(form, env, ranges, live, operands)
    if padded is None:
        yield whole
        return
    name, interior = padded
    accumulating = {var for reduce in form.reduces for var in reduce.at(env).variables}
    begins = whole.initial
    pieces = without_padding(operands[name], interior, env, ranges, accumulating, begins)
    for number, piece in enumerate(pieces):
        nest = _nest(form, env, piece, live, operands)
        yield replace(nest, initial=begins and number == 0)


def rolled(nests: Iterable[Nest]) -> Iterator[Nest]:
    """Join runs of nests that differ by a constant step into one nest with an additional loop."""
    run: list[Nest] = []
    for nest in nests:
        if run and not _continues(run, nest):
            yield _joined(run)
            run = []
        run.append(nest)
    if run:
        yield _joined(run)


def _continues(run: list[Nest], nest: Nest) -> bool:
    last = run[-1]
    if replace(nest, bases=last.bases) != last or any(nest.reduce):
        return False
    step = _step(last, nest)
    if len(run) == 1:
        # The hardware only adds to row numbers, so no loop may count down.
        return all(rows >= 0 for rows in step.values())
    return step == _step(run[0], run[1])


def _step(a: Nest, b: Nest) -> dict[str, int]:
    return {name: row - a.bases[name] for name, row in b.bases.items()}


def _joined(run: list[Nest]) -> Nest:
    if len(run) == 1:
        return run[0]
    first, step = run[0], _step(run[0], run[1])
    return replace(
        first,
        extents=(len(run), *first.extents),
        steps={name: (step[name], *steps) for name, steps in first.steps.items()},
        reduce=(False, *first.reduce),
    )


def loop_ranges(form: BlockForm, env: Env) -> Iterator[tuple[Env, dict[Var, range]]]:
    """For every combination of values of the enumerated loops, constant ranges of the others."""
    for inner, ranges, _ in _settled(form, env, {}, {}):
        yield inner, ranges


_Operands = Mapping[str, RegionForm]


def _settled(
    form: BlockForm,
    env: Env,
    operands: _Operands,
    limits: Mapping[Var, range],
    zeros: ZeroWeights | None = None,
) -> Iterator[tuple[Env, dict[Var, range], _Operands]]:
    """Enumerate or split loops within `limits`; yields the bound values, ranges and operands."""
    open_loops = [loop for loop in form.loops if loop.var not in env]
    ranges = {loop.var: limits.get(loop.var, range(loop.extent)) for loop in open_loops}
    mixed: set[Var] = set()
    if zeros is not None:
        mixed.update(zeros.place.at(env).variables)
    for clip in form.clips:
        at = clip.form.at(env)
        if at.expr is not None or len(at.terms) > 1:
            mixed.update(at.variables)
        elif not at.terms:
            if (at.constant >= 0) != clip.at_least:
                return
        else:
            _narrow(ranges, at, clip.at_least)
    if any(not values for values in ranges.values()):
        return
    operands = {name: _decided(operand, env, ranges) for name, operand in operands.items()}
    for operand in operands.values():
        for minimum in operand.minima[:-ROW_DIMS]:
            if minimum.expr is None:
                continue
            cut = first_cut(minimum.expr, ranges)
            if cut is not None:
                var, value = cut
                for part in (range(ranges[var].start, value), range(value, ranges[var].stop)):
                    yield from _settled(form, env, operands, {**limits, var: part}, zeros)
                return
            mixed.update(minimum.variables)
    if not mixed:
        if zeros is not None:
            zeros.leave_out(ranges, env)
        yield env, ranges, operands
        return
    outermost = next(loop for loop in open_loops if loop.var in mixed)
    for value in ranges[outermost.var]:
        yield from _settled(form, {**env, outermost.var: value}, operands, limits, zeros)


def _decided(operand: RegionForm, env: Env, ranges: Mapping[Var, range]) -> RegionForm:
    """`operand` without the selects whose condition is constant over `ranges`."""
    if all(minimum.expr is None for minimum in operand.minima):
        return operand
    minima = []
    for minimum in operand.minima:
        at = minimum if minimum.expr is None else minimum.at(env)
        minima.append(at if at.expr is None else form_of(decided(at.expr, ranges)))
    return replace(operand, minima=tuple(minima))


def _narrow(ranges: dict[Var, range], at: Form, at_least: bool) -> None:
    """Shrink the range of the one variable of ``factor * var + constant >= 0`` or ``< 0``."""
    (var, factor), constant = at.terms[0], at.constant
    if not at_least:
        # f*v + c < 0 is -f*v - c - 1 >= 0.
        factor, constant = -factor, -constant - 1
    old = ranges[var]
    if factor > 0:
        ranges[var] = range(max(old.start, -(constant // factor)), old.stop)
    else:
        ranges[var] = range(old.start, min(old.stop, constant // -factor + 1))


def _nest(
    form: BlockForm,
    env: Env,
    ranges: Mapping[Var, range],
    live: Live,
    operands: Mapping[str, RegionForm],
) -> Nest:
    loops: list[For] = [loop for loop in form.loops if loop.var in ranges]
    first: dict[Var, int] = {loop.var: ranges[loop.var].start for loop in loops}
    start = {**env, **first}
    bases: dict[str, int] = {}
    steps: dict[str, tuple[int, ...]] = {}
    for name, operand in operands.items():
        held = live[operand.region.buffer]
        row = held.start
        factors = dict.fromkeys(ranges, 0)
        for minimum, stride, origin in zip(operand.minima, held.strides, held.origin, strict=False):
            at = minimum.at(env)
            row += (minimum.value(start) - origin) * stride
            for var, factor in at.terms:
                factors[var] += factor * stride
        bases[name] = row
        steps[name] = tuple(factors[loop.var] for loop in loops)
    accumulating = {var for reduce in form.reduces for var in reduce.at(env).variables}
    return Nest(
        tuple(len(ranges[loop.var]) for loop in loops),
        bases,
        steps,
        tuple(loop.var in accumulating for loop in loops),
        form.realize.block.init is not None
        and all(reduce.value(start) == 0 for reduce in form.reduces),
    )
