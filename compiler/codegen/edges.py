"""`Edge`: where the indices of a nest reach a border, which depends on the loops outside it.

Executions of a nest that reach no border have the same instructions, elsewhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daedal.compiler.codegen.concrete import Env
from daedal.compiler.codegen.forms import BlockForm, Form
from daedal.compiler.tir.expr import Var
from daedal.compiler.tir.stmt import For

__all__ = ["Edge", "conditions"]

_FAR = 1 << 62
"""No index is as large."""


@dataclass(frozen=True)
class Edge:
    """An index that must lie in `inside`.

    It is ``sum(factor * variable)`` over loops outside the nest, plus `low` to `high`.
    """

    terms: tuple[tuple[Var, int], ...]
    low: int
    high: int
    inside: range

    @classmethod
    def of(cls, at: Form, inside: range, loops: Iterable[For]) -> "Edge":
        extents = {loop.var: loop.extent for loop in loops}
        reach = [factor * (extents[var] - 1) for var, factor in at.terms if var in extents]
        return cls(
            tuple((var, factor) for var, factor in at.terms if var not in extents),
            at.constant + sum(min(0, item) for item in reach),
            at.constant + sum(max(0, item) for item in reach),
            inside,
        )

    def key(self, env: Env) -> int | None:
        """None where that is so in the whole nest, wherever it is; else the exact position."""
        position = 0
        for var, factor in self.terms:
            position += factor * env[var]
        low, high = position + self.low, position + self.high
        return None if self.inside.start <= low and high < self.inside.stop else position


def conditions(form: BlockForm) -> Iterator[Edge]:
    """Where the affine conditions of a form hold."""
    for clip in form.clips:
        if clip.form.expr is None:
            inside = range(_FAR) if clip.at_least else range(-_FAR, 0)
            yield Edge.of(clip.form, inside, form.loops)
