"""`with_halves`: sums of products multiply operands of 16 bits; sums stay float32.

    r[i, j] = sum(x[i, k] * w[k, j], k)   =>   h[i, k] = float16(x[i, k])
                                               r[i, j] = sum(float32(h[i, k]) * float32(v[k, j]), k)

A constant is converted now: `v` is `w` in float16. Larger numbers than 65504 become infinite, but
not in bfloat16, which has fewer digits instead.
"""

from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.tir.expr import Axis, Binary, Buffer, Cast, Expr, Load, Reduce

__all__ = ["with_halves"]

SINGLE = "float32"


def with_halves(
    values: Mapping[te.Tensor, Expr],
    constants: Constants,
    narrows: Callable[[te.Tensor], bool],
    half: str,
) -> tuple[dict[te.Tensor, Expr], dict[Buffer, te.Tensor]]:
    """Formulas, in order, and the tensors of 16 bits by those that they are rounded from.

    Parameters
    ----------
    values : formulas, each behind those that it reads.
    narrows : whether the operands of a sum of products of float32 are rounded.
    half : dtype of 16 bits.
    """
    found: dict[te.Tensor, Expr] = {}
    halves: dict[Buffer, te.Tensor] = {}

    def rounded(load: Load) -> Expr:
        source = load.buffer
        if source not in halves:
            halves[source] = constants.converted(source, half) or _cast(source, half)
            value = halves[source].value
            if value is not None:
                found[halves[source]] = value
        return Cast(SINGLE, Load(halves[source], load.indices, load.pad_value))

    for tensor, formula in values.items():
        pair = _factors(formula)
        if pair is not None and narrows(tensor):
            assert isinstance(formula, Reduce)
            formula = Reduce("sum", rounded(pair[0]) * rounded(pair[1]), formula.axes)
        found[tensor] = formula
    return found, halves


def _factors(formula: Expr) -> tuple[Load, Load] | None:
    """The two elements of float32 whose products are summed."""
    match formula:
        case Reduce("sum", Binary("*", Load() as one, Load() as other)) if (
            one.buffer is not other.buffer and {one.dtype, other.dtype} == {SINGLE}
        ):
            return one, other
    return None


def _cast(source: Buffer, half: str) -> te.Tensor:
    axes = tuple(Axis(f"i{number}", extent=n) for number, n in enumerate(source.shape))
    value = Cast(half, Load(source, axes))
    return te.Tensor(f"{source.name}.half", source.shape, half, "global", axes, value)
