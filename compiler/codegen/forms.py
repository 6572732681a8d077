"""Affine forms of a tensorized block's indices in the loops around it, computed once per block.

A block is emitted for every iteration of the loops outside its nest; only the constants of the
forms change. A non-affine index (a select on a loop) remains an expression, and the loops in it are
enumerated.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from daedal.compiler.codegen.instances import ROW_DIMS
from daedal.compiler.tir.condition import conjuncts
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Cast, Compare, Expr, IntImm, Load, Select, Var
from daedal.compiler.tir.linear import linear, simplify
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, For, Region, Seq, Stmt
from daedal.compiler.tir.visit import free_vars, loads, substitute

__all__ = [
    "BlockForm",
    "Clip",
    "Form",
    "RegionForm",
    "block_form",
    "constant_of",
    "form_of",
    "leaf_form",
    "pure_nest",
]


class Form(NamedTuple):
    """``sum(coefficient * variable) + constant``, or `expr` if it is not affine."""

    terms: tuple[tuple[Var, int], ...]
    constant: int
    expr: Expr | None = None

    def at(self, env: Mapping[Var, int]) -> "Form":
        """The form with the variables of `env` replaced by their values."""
        if self.expr is not None:
            used: dict[Var, Expr] = {
                var: IntImm(env[var]) for var in free_vars(self.expr) if var in env
            }
            if len(used) == len(free_vars(self.expr)):
                return Form((), self.value(env))
            return form_of(simplify(substitute(self.expr, used)))
        constant = self.constant
        rest = []
        for var, factor in self.terms:
            if var in env:
                constant += factor * env[var]
            else:
                rest.append((var, factor))
        return Form(tuple(rest), constant)

    def value(self, env: Mapping[Var, int]) -> int:
        """The value; `env` must bind every variable."""
        if self.expr is not None:
            return int(evaluate(self.expr, env, _no_loads))
        constant = self.constant
        for var, factor in self.terms:
            constant += factor * env[var]
        return constant

    def without(self, variables: Collection[Var]) -> "Form":
        """An affine form with 0 for some variables."""
        assert self.expr is None, "only an affine form has parts"
        return Form(tuple(term for term in self.terms if term[0] not in variables), self.constant)

    @property
    def variables(self) -> tuple[Var, ...]:
        """The variables it depends on."""
        if self.expr is not None:
            return tuple(free_vars(self.expr))
        return tuple(var for var, _ in self.terms)


@dataclass(frozen=True)
class Clip:
    """A condition ``form < 0``, or with `at_least` ``form >= 0``."""

    form: Form
    at_least: bool


@dataclass(frozen=True)
class RegionForm:
    """A region, with its minimum in each dimension as a form."""

    region: Region
    minima: tuple[Form, ...]


@dataclass(frozen=True)
class BlockForm:
    """A block and its loops: the regions it touches, its conditions, its accumulating loops.

    For a copy from one of several regions, `source` is the index into `reads` of the one to copy.
    """

    loops: tuple[For, ...]
    realize: BlockRealize
    reads: tuple[RegionForm, ...]
    writes: tuple[RegionForm, ...]
    clips: tuple[Clip, ...]
    reduces: tuple[Form, ...]
    source: Expr | None = None

    @property
    def annotations(self) -> Mapping[str, str | int | bool]:
        """The block's annotations: intrinsic, operands in the order of the reads, immediates."""
        return self.realize.block.annotations

    def read(self, operand: str) -> RegionForm:
        """The region read as `operand` of the intrinsic."""
        names = str(self.annotations["operands"]).split(",")
        return self.reads[names.index(operand)]


def _no_loads(load: object, _indices: object) -> int:
    raise AssertionError(f"an index depends on data: {load!r}")


def constant_of(expr: Expr, env: Mapping[Var, int]) -> int:
    """The value of an index expression; `env` must bind all of its variables."""
    return form_of(expr).value(env)


@Memo
def form_of(expr: Expr) -> Form:
    """The form of an index expression."""
    affine = linear(expr)
    assert affine is not None
    terms = [(term, factor) for term, factor in affine.terms if isinstance(term, Var)]
    if len(terms) != len(affine.terms):
        return Form((), 0, expr)
    return Form(tuple(terms), affine.constant)


def pure_nest(stmt: Stmt) -> tuple[tuple[For, ...], BlockRealize] | None:
    """The loops of a perfect nest around a single block, and the block; else None."""
    loops = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return (tuple(loops), stmt) if isinstance(stmt, BlockRealize) else None


def block_form(loops: tuple[For, ...], realize: BlockRealize) -> BlockForm:
    """The form of a block as its intrinsic sees it: the first row of each region."""
    form = _form(loops, realize, {}, ())
    reads = tuple(_one_row(item, loops, realize) for item in form.reads)
    return replace(form, reads=reads)


def _one_row(item: RegionForm, loops: tuple[For, ...], realize: BlockRealize) -> RegionForm:
    """The region with exact leading indices, if inference gave it several rows.

    Either inference could not be exact (a select on a loop), or the block reads adjacent rows, and
    the result is the first of them.
    """
    if all(part.extent == 1 for part in item.region.ranges[:-ROW_DIMS]):
        return item
    values: dict[Var, Expr] = {}
    leaf: BlockRealize = realize
    while True:
        for axis, value in leaf.binding.items():
            values[axis] = substitute(value, values)
        inside = pure_nest(leaf.block.body)
        if inside is None:
            break
        values |= {loop.var: IntImm(0) for loop in inside[0]}
        leaf = inside[1]
    assert isinstance(leaf.block.body, BufferStore)
    load = next(load for load in loads(leaf.block.body.value) if load.buffer is item.region.buffer)
    extents = {loop.var: loop.extent for loop in loops}
    exact = tuple(
        form_of(simplify(substitute(index, values), extents)) for index in load.indices[:-ROW_DIMS]
    )
    return RegionForm(item.region, exact + item.minima[-ROW_DIMS:])


def leaf_form(loops: tuple[For, ...], realize: BlockRealize) -> BlockForm:
    """The form of the innermost block of a tensorized copy, its inner loops appended to `loops`."""
    values: dict[Var, Expr] = {}
    clips: tuple[Clip, ...] = ()
    while True:
        inside = pure_nest(realize.block.body)
        if inside is None:
            form = _form(loops, realize, values, clips)
            return replace(form, source=_source(realize, values)) if len(form.reads) > 1 else form
        clips += _clips(realize.predicate, values)
        for axis, value in realize.binding.items():
            values[axis] = simplify(substitute(value, values))
        inner, realize = inside
        loops = (*loops, *inner)


def _source(realize: BlockRealize, outer: Mapping[Var, Expr]) -> Expr:
    """Index, among the block's reads, of the region that its value comes from."""
    block = realize.block
    assert isinstance(block.body, BufferStore)
    binding: dict[Var, Expr] = {
        axis: substitute(value, outer) for axis, value in realize.binding.items()
    }

    def number(value: Expr) -> Expr:
        match value:
            case Cast(_, inner):
                return number(inner)
            case Select(condition, true, false):
                return Select(substitute(condition, binding), number(true), number(false))
        assert isinstance(value, Load), "a copy stores what it loads"
        buffers = [(region.buffer, region.pad_value) for region in block.reads]
        return IntImm(buffers.index((value.buffer, value.pad_value)))

    return number(block.body.value)


def _form(
    loops: tuple[For, ...],
    realize: BlockRealize,
    outer: Mapping[Var, Expr],
    clips: tuple[Clip, ...],
) -> BlockForm:
    block = realize.block
    assert not isinstance(block.body, Seq), f"block {block.name!r} holds one nest"
    extents = {loop.var: loop.extent for loop in loops}
    binding: dict[Var, Expr] = {
        axis: simplify(substitute(value, outer), extents) for axis, value in realize.binding.items()
    }

    def regions(found: Sequence[Region]) -> tuple[RegionForm, ...]:
        return tuple(
            RegionForm(
                region,
                tuple(
                    form_of(simplify(substitute(part.min, binding), extents))
                    for part in region.ranges
                ),
            )
            for region in found
        )

    return BlockForm(
        loops,
        realize,
        regions(block.reads),
        regions(block.writes),
        clips + _clips(realize.predicate, outer),
        tuple(form_of(binding[axis]) for axis in block.reduce_vars),
    )


def _clips(predicate: Expr | None, outer: Mapping[Var, Expr]) -> tuple[Clip, ...]:
    clips = []
    for condition in conjuncts(predicate):
        assert isinstance(condition, Compare) and condition.op in ("<", ">=")
        form = form_of(simplify(substitute(condition.a - condition.b, outer)))
        clips.append(Clip(form, condition.op == ">="))
    return tuple(clips)
