"""How block variables depend on loops: each instance at most once, in a box, clipped at the domain.

A block's loops are of two kinds: *fixed* loops are around the allocation of what it writes (each
iteration has a new buffer), *running* loops are inside it. Over the running loops, the block's
variables must visit every point of a box exactly once, of the points that add to one element the
one with the init first. The box may be clipped at the variables'
domains or by conditions on running loops alone. A condition on fixed loops alone skips whole
iterations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.tir.condition import Condition, conjuncts, normal_condition
from daedal.compiler.tir.enumeration import check_points
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Axis, Compare, Expr, Var
from daedal.compiler.tir.linear import bounds, linear, simplify
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.printer import expr_text
from daedal.compiler.tir.region import conditions_of, relax
from daedal.compiler.tir.stmt import BlockRealize, Range
from daedal.compiler.tir.visit import free_vars

__all__ = ["check_bindings", "clip_conditions", "value_ranges"]


def value_ranges(
    realize: BlockRealize, running: Mapping[Var, int], extents: Mapping[Var, int]
) -> list[Range]:
    """Per block variable, the box it fills while the running loops run.

    It is not clipped at the variable's domain.
    """
    result = []
    conditions = conditions_of(realize, {**extents, **running})
    for axis, value in zip(realize.block.iter_vars, realize.values, strict=True):
        part = relax(Range(value, 1), running, extents, conditions)
        if part is None:
            raise InvalidIRError(
                f"a binding must be affine in loops, not {axis.name} = {expr_text(value)} "
                f"(block {realize.block.name!r})"
            )
        result.append(part)
    return result


def clip_conditions(
    iter_vars: Sequence[Axis], values: Sequence[Expr], extents: Mapping[Var, int]
) -> list[Expr]:
    """The conditions that keep each value in the domain of its variable."""
    conditions: list[Expr] = []
    for axis, value in zip(iter_vars, values, strict=True):
        limits = bounds(value, extents)
        if limits is None or limits[0] < 0:
            conditions.append(value >= 0)
        if limits is None or limits[1] >= axis.extent:
            conditions.append(value < axis.extent)
    return conditions


def check_bindings(realize: BlockRealize, loops: Sequence[tuple[Var, int]], num_fixed: int) -> None:
    """Raise InvalidIRError unless the bindings follow the rule of this module.

    Parameters
    ----------
    loops
        Variable and extent of every loop around the block, outermost first.
    num_fixed
        How many of them are fixed: around the allocation of what the block writes.
    """
    known = _verdicts(realize)
    key = (num_fixed, tuple(loops))
    if key not in known:
        try:
            _check(realize, dict(loops[num_fixed:]), dict(loops))
        except InvalidIRError as error:
            known[key] = str(error)
        else:
            known[key] = None
    verdict = known[key]
    if verdict is not None:
        raise InvalidIRError(verdict)


@Memo
def _verdicts(
    _realize: BlockRealize,
) -> dict[tuple[int, tuple[tuple[Var, int], ...]], str | None]:
    """What `check_bindings` found of a block, by its loops and how many are fixed."""
    return {}


def _check(realize: BlockRealize, running: Mapping[Var, int], extents: Mapping[Var, int]) -> None:
    block = realize.block
    _check_form(realize)
    used = {var for value in realize.values for var in free_vars(value)}
    for var, extent in running.items():
        if extent > 1 and var not in used:
            raise InvalidIRError(
                f"every loop around a block must take part in its bindings, not {var.name!r} alone "
                f"(block {block.name!r})"
            )
    groups = _groups(realize, running, extents)
    have = {normal_condition(c, extents) for c in conjuncts(realize.predicate)}
    for group in groups:
        if len(group.values) == 1 and not group.entangled:
            axis, value = block.iter_vars[group.values[0]], realize.values[group.values[0]]
            needed = clip_conditions([axis], [value], extents)
            clipped = all(normal_condition(c, extents) in have for c in needed)
            if clipped and _is_dense(value, running, extents):
                continue
        check_points(realize, group.values, group.conditions, running, extents)


@dataclass
class _Group:
    """Values that share running loops, and the conditions on those.

    It is `entangled` where one of these does more than clip one value at its domain.
    """

    values: list[int]
    variables: set[Var]
    conditions: list[Expr]
    entangled: bool = False


def _groups(
    realize: BlockRealize, running: Mapping[Var, int], extents: Mapping[Var, int]
) -> list[_Group]:
    """Groups of values that depend on each other, directly or through others."""
    groups: list[_Group] = []

    def joined(new: _Group) -> None:
        apart = []
        for other in groups:
            if new.variables & other.variables:
                new.values = other.values + new.values
                new.variables = other.variables | new.variables
                new.conditions = other.conditions + new.conditions
                new.entangled = other.entangled or new.entangled
            else:
                apart.append(other)
        groups[:] = [*apart, new]

    clips: dict[Condition, set[Var]] = {}
    for position, (axis, value) in enumerate(
        zip(realize.block.iter_vars, realize.values, strict=True)
    ):
        moving = {var for var in free_vars(value) if var in running}
        joined(_Group([position], moving, []))
        if realize.predicate is not None:
            for condition in (value >= 0, value < axis.extent):
                clips[normal_condition(condition, extents)] = moving
    for condition in conjuncts(realize.predicate):
        moving = {var for var in free_vars(condition) if var in running}
        # A condition on fixed loops alone skips whole iterations, each with its own buffer.
        if moving:
            clipped = clips.get(normal_condition(condition, extents))
            joined(_Group([], moving if clipped is None else clipped, [condition], clipped is None))
    return groups


def _is_dense(value: Expr, running: Mapping[Var, int], extents: Mapping[Var, int]) -> bool:
    """Whether ``value`` counts like a mixed-radix number: 1*a + |a|*b + |a|*|b|*c ..."""
    form = linear(simplify(value, extents))
    parts = form.split(running)
    if parts is None:
        return False
    stride = 1
    for term, factor in sorted(parts[0].terms, key=lambda item: item[1]):
        if not isinstance(term, Var):
            return False
        if running[term] == 1:
            continue
        if factor != stride:
            return False
        stride *= running[term]
    return True


def _check_form(realize: BlockRealize) -> None:
    for condition in conjuncts(realize.predicate):
        if not isinstance(condition, Compare) or condition.op not in ("<", ">="):
            raise InvalidIRError(
                "a predicate may only clip loops, as in i*4 + j < 7, not ask "
                f"{expr_text(condition)} "
                f"(block {realize.block.name!r})"
            )
