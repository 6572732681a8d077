"""`Constants`: what is known of a model's values when it is compiled, and what follows from it."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.tir.bfloat16 import BFLOAT16
from daedal.compiler.tir.evaluate import convert
from daedal.compiler.tir.expr import Axis, Buffer, Call, Cast, Expr, Load, Reduce, Var, as_expr
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS
from daedal.compiler.tir.visit import children, free_vars, loads, rebuilt, substitute

__all__ = ["Constants"]

Array = npt.NDArray[Any]

MAX_ELEMENTS = 1 << 16
"""Elements of a constant that is computed here."""


class Constants:
    """Values of placeholders.

    Parameters
    ----------
    converts : whether an element that is only converted is a constant of its own, too; if not,
        kernels read it in its own dtype.

    Attributes
    ----------
    added : placeholders that `folded` and `converted` made, with their values.
    """

    def __init__(self, values: Mapping[Buffer, Array], *, converts: bool = True) -> None:
        self._values = dict(values)
        self._converts = converts
        self.added: dict[Buffer, Array] = {}

    @property
    def known(self) -> Collection[Buffer]:
        """All placeholders with values."""
        return self._values.keys()

    def immediate(self, load: Load) -> Expr | None:
        """The value itself where `load` reads a constant of one element, and never beside it."""
        value = self._values.get(load.buffer)
        if value is None or value.size != 1 or load.pad_value is not None:
            return None
        value = convert(value, load.dtype, "float32") if load.dtype == BFLOAT16 else value
        return as_expr(value.item(), load.dtype)

    def converted(self, buffer: Buffer, dtype: str) -> te.Tensor | None:
        """A constant in another dtype; None for what is none."""
        value = self._values.get(buffer)
        if value is None:
            return None
        made = te.placeholder(buffer.shape, dtype, f"{buffer.name}.{dtype}")
        with np.errstate(over="ignore"):
            self.added[made] = self._values[made] = convert(value, buffer.dtype, dtype)
        return made

    def folded(self, formula: Expr) -> Expr:
        """`formula` where each part that depends on constants alone is a constant of its own.

        The gain ``g[c] / sqrt(v[c] + e)`` of a batch normalization becomes one element per channel.
        """
        if isinstance(formula, Reduce):
            return Reduce(formula.op, self.folded(formula.value), formula.axes)
        read = loads(formula)
        if not read or isinstance(formula, Load) or _reads_groups(formula):
            return formula
        if not self._converts and isinstance(formula, Cast) and isinstance(formula.value, Load):
            return formula
        axes = [axis for axis in free_vars(formula) if isinstance(axis, Axis)]
        known = all(load.buffer in self._values for load in read)
        if known and axes and math.prod(axis.extent for axis in axes) <= MAX_ELEMENTS:
            return self._constant(formula, axes)
        return rebuilt(formula, tuple(self.folded(part) for part in children(formula)))

    def _constant(self, formula: Expr, axes: Sequence[Axis]) -> Expr:
        own = tuple(Axis(axis.name, extent=axis.extent) for axis in axes)
        shape = tuple(axis.extent for axis in own)
        values: dict[Var, Expr] = dict(zip(axes, own, strict=True))
        part = te.Tensor("part", shape, formula.dtype, "global", own, substitute(formula, values))
        given = {
            load.buffer.name: self._values[load.buffer].reshape(load.buffer.shape)
            for load in loads(formula)
        }
        (value,) = te.evaluate_tensors([part], given)
        made = te.placeholder(shape, formula.dtype, f"part{len(self.added)}")
        self.added[made] = self._values[made] = value
        return Load(made, tuple(axes))


def _reads_groups(formula: Expr) -> bool:
    """Whether elements are read in groups, which lie side by side as they are."""
    return isinstance(formula, Call) and formula.name in DOT_PRODUCTS
