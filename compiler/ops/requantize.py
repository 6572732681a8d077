"""The last step of every integer operator: accumulators to outputs, with one rounding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.piecewise import piecewise
from daedal.compiler.te.table import entry_of
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["WIDE_DTYPE", "Bounds", "requantize", "requantized", "requantized_at"]

WIDE_DTYPE = "int32"
"""Element type of wide tensors: that of accumulators of 32 bits."""


@dataclass(frozen=True)
class Bounds:
    """Zero point and bounds of a result: ``clip(rounded + zero_point, low, high)``.

    A `wide` result has 16 bits and stays in the accumulators, on variants whose other results have
    8 bits.
    """

    zero_point: int = 0
    low: int = -128
    high: int = 127
    wide: bool = False

    def dtype(self, operand: str) -> str:
        """Element type of the result, from that of an operand."""
        if self.wide:
            return WIDE_DTYPE
        return "int8" if operand == WIDE_DTYPE else operand


def requantized(
    acc: te.Tensor,
    params: te.Tensor,
    bounds: Bounds,
    dtype: str,
    name: str = "y",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """Tensor `name`: `acc` (NB, CB, H, W, U, batch, lanes) by `params` (CB * U or 1, lanes, 3)."""
    parts = acc.shape[4]
    per_channel = params.shape[0] > 1 or acc.shape[1] * parts == 1
    return requantized_at(
        acc.shape,
        lambda n, c, h, w, u, b, o: acc[n, c, h, w, u, b, o],
        params,
        bounds,
        dtype,
        row=lambda n, c, h, w, u: c * parts + u if per_channel else IntImm(0),
        name=name,
        table=table,
    )


def requantized_at(
    shape: Sequence[int],
    value: Callable[..., Expr],
    params: te.Tensor,
    bounds: Bounds,
    dtype: str,
    *,
    row: Callable[..., Expr] = lambda n, c, h, w, u: IntImm(0),
    classes: Sequence[Sequence[int]] = (),
    name: str = "y",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """Tensor `name` of `shape` (NB, CB, H, W, U, batch, lanes).

    Parameters
    ----------
    value : the accumulator of the element at (n, c, h, w, u, b, o).
    row : the row of `params` (rows, lanes, 3) for the vector at (n, c, h, w, u).
    classes : (H, W), the class of each pixel, if `params` are (rows, classes, lanes, 3).
    table : where the results are looked up (`daedal.compiler.te.table`), if anywhere.
    """
    kinds = {tuple(line): [IntImm(number) for number in line] for line in classes}

    def element(n: Expr, c: Expr, h: Expr, w: Expr, u: Expr, b: Expr, o: Expr) -> Expr:
        at = [row(n, c, h, w, u)]
        if kinds:
            lines = {line: piecewise(w, numbers) for line, numbers in kinds.items()}
            at.append(piecewise(h, [lines[tuple(line)] for line in classes]))
        result = te.requantize(
            value(n, c, h, w, u, b, o),
            params[*at, o, 0],
            params[*at, o, 1],
            params[*at, o, 2],
            bounds.zero_point,
            bounds.low,
            bounds.high,
            dtype,
        )
        return result if table is None else entry_of(table, result)

    return te.compute(shape, element, name)


def requantize(
    x: te.Tensor,
    params: te.Tensor,
    *,
    bounds: Bounds,
    accumulator: str = "int32",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """Change of scale, zero point and bounds, with the one parameter row (1, lanes, 3); maybe with
    a `table` (`daedal.compiler.te.table`)."""
    wide = te.compute(
        x.shape, lambda n, c, h, w, u, b, o: x[n, c, h, w, u, b, o].astype(accumulator), "wide"
    )
    return requantized(wide, params, bounds, bounds.dtype(x.dtype), table=table)
