"""Tensors: placeholders and computations, each a formula over its axes."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Axis, Buffer, Expr, Load, Reduce, Var
from daedal.compiler.tir.intrin import Scalar
from daedal.compiler.tir.linear import bounds
from daedal.compiler.tir.printer import expr_text
from daedal.compiler.tir.visit import children, loads, walk

__all__ = ["Tensor", "compute", "placeholder"]


@dataclass(frozen=True, eq=False)
class Tensor(Buffer):
    """A buffer with its definition: ``self[axes] = value``, or an input where `value` is None."""

    axes: tuple[Axis, ...] = ()
    value: Expr | None = None

    @property
    def inputs(self) -> tuple["Tensor", ...]:
        """The tensors that the formula reads, each once, in order."""
        if self.value is None:
            return ()
        found: dict[Tensor, None] = {}
        for load in loads(self.value):
            assert isinstance(load.buffer, Tensor)
            found[load.buffer] = None
        return tuple(found)

    def __str__(self) -> str:
        """``y[i:4, j:8] int32 = sum(x[i, k], over k in 3)``; an input shows its type alone."""
        if self.value is None:
            return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
        axes = ", ".join(f"{axis.name}:{axis.extent}" for axis in self.axes)
        return f"{self.name}[{axes}] {self.dtype} = {expr_text(self.value)}"


def placeholder(shape: Sequence[int], dtype: str, name: str) -> Tensor:
    """An input of the given shape."""
    return Tensor(name, tuple(shape), dtype)


def compute(shape: Sequence[int], fn: Callable[..., Expr], name: str) -> Tensor:
    """The tensor of elements ``fn(i, j, ...)``; axes are named as fn names them.

    A function of ``*i`` takes any number of axes, which are i0, i1, and so on; parameters with a
    default are no axes.

    Raises
    ------
    ExpressionError
        Where fn takes another number of axes, reads outside a tensor, hides a reduction in a
        formula, or where two axes bear one name.
    """
    names = _axis_names(fn, len(shape))
    if len(names) != len(shape):
        raise ExpressionError(
            f"{name!r} has {len(shape)} dimensions; its function must take as many axes, not "
            f"{len(names)}"
        )
    axes = tuple(Axis(axis, extent=extent) for axis, extent in zip(names, shape, strict=True))
    value = fn(*axes)
    if not isinstance(value, Expr):
        raise ExpressionError(f"the function of {name!r} must return an expression, not {value!r}")
    _check_names(name, axes, value)
    _check_reductions(name, axes, value)
    _check_reads(name, axes, value)
    return Tensor(name, tuple(shape), value.dtype, "global", axes, value)


def _axis_names(fn: Callable[..., Expr], rank: int) -> list[str]:
    parameters = list(inspect.signature(fn).parameters.values())
    if len(parameters) == 1 and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return [f"{parameters[0].name}{dim}" for dim in range(rank)]
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def _check_names(name: str, axes: tuple[Axis, ...], value: Expr) -> None:
    reduced = value.axes if isinstance(value, Reduce) else ()
    if len(set(reduced)) < len(reduced):
        raise ExpressionError(f"a reduction takes each axis once ({name!r})")
    names = [axis.name for axis in (*axes, *reduced)]
    for item in names:
        if names.count(item) > 1:
            raise ExpressionError(
                f"axes of one formula need distinct names, not two {item!r} ({name!r})"
            )


def _check_reductions(name: str, axes: tuple[Axis, ...], value: Expr) -> None:
    inner = [node for part in children(value) for node in walk(part) if isinstance(node, Reduce)]
    if inner:
        raise ExpressionError(
            f"a reduction must be the whole formula of a tensor, not a part ({name!r}); "
            "compute it as a tensor of its own"
        )
    known: set[Var] = set(axes)
    if isinstance(value, Reduce):
        known.update(value.axes)
    for node in walk(value):
        if isinstance(node, Var) and not isinstance(node, Scalar) and node not in known:
            raise ExpressionError(
                f"a formula may use its own axes and those it reduces over, not {node.name!r} "
                f"({name!r})"
            )


def _check_reads(name: str, axes: tuple[Axis, ...], value: Expr) -> None:
    extents: dict[Var, int] = {axis: axis.extent for axis in axes}
    if isinstance(value, Reduce):
        extents.update({axis: axis.extent for axis in value.axes})
    for load in loads(value):
        if load.pad_value is None:
            _check_inside(name, load, extents)


def _check_inside(name: str, load: Load, extents: dict[Var, int]) -> None:
    for dim, (index, size) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
        limits = bounds(index, extents)
        if limits is not None and (limits[0] < 0 or limits[1] >= size):
            raise ExpressionError(
                f"{name!r} reads {load.buffer.name!r} at {limits[0]}..{limits[1]} in dimension "
                f"{dim} "
                f"of size {size}; read it through padded(value), or change the shape"
            )
