"""Sums, products and changes of scale, element by element."""

from collections.abc import Callable, Sequence

from daedal.compiler import te
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.pair_scaling import PairRatios, pair_ratios
from daedal.compiler.ops.graph.requantize import Requantization, by_number
from daedal.compiler.tir.expr import Expr, FloatImm, IntImm

__all__ = ["LOWERINGS"]


def _computed(
    operation: GraphOperation, element: Callable[[list[te.Tensor], Sequence[Expr]], Expr]
) -> te.Tensor:
    """The tensor of `element`, of the operands as they lie in memory, at each place."""
    count = len(operation.node.inputs) - 1
    operands = [operation.tensor(index) for index in range(count)]
    return operation.compute(operands[0].shape, lambda *i: element(operands, i))


def _read(operand: te.Tensor, i: Sequence[Expr]) -> Expr:
    """An element as int32; extents of 1 are repeated."""
    places = (
        IntImm(0) if extent == 1 else index for index, extent in zip(i, operand.shape, strict=True)
    )
    return operand[tuple(places)].astype("int32")


def _finish(operation: GraphOperation, largest: int | None = None) -> Callable[[Expr], Expr]:
    finish = Requantization(operation, operation.constant(-1), largest)
    return lambda acc: finish(acc, by_number)


def _lower_add(operation: GraphOperation) -> te.Tensor:
    factors = [operation.whole(f"multiplier_{role}") for role in "ab"]
    ratios = _pair_ratios(operation, factors)
    if ratios is not None:
        return _sum_of_reals(operation, ratios)
    finish = _finish(operation)

    def element(operands: list[te.Tensor], i: Sequence[Expr]) -> Expr:
        a, b = (
            _read(item, i).astype("float64") * float(by)
            for item, by in zip(operands, factors, strict=True)
        )
        return finish(a + b)

    return _computed(operation, element)


def _pair_ratios(operation: GraphOperation, factors: Sequence[int]) -> PairRatios | None:
    """How float32 has every sum; GPUs may round products and their sum at once."""
    if operation.tensors.factors.group == 1 or any(
        operation.type(index).dtype != "int8" for index in range(2)
    ):
        return None
    low, high = (operation.whole(name) + 128 for name in ("low", "high"))
    (row,) = operation.constant(-1)
    zero = operation.whole("zero_point") + 128
    return pair_ratios((factors[0], factors[1]), row, low, high, zero)


def _sum_of_reals(operation: GraphOperation, ratios: PairRatios) -> te.Tensor:
    """The sum; it is an uint8 before it becomes an int8, as vectors are packed."""
    low, high = (operation.whole(name) + 128 for name in ("low", "high"))
    first, second, offset = (
        FloatImm(value, "float32") for value in (ratios.first, ratios.second, ratios.offset)
    )

    def element(operands: list[te.Tensor], i: Sequence[Expr]) -> Expr:
        a, b = (_read(item, i).astype("float32") for item in operands)
        total = te.multiply_add(a, first, te.multiply_add(b, second, offset))
        return (te.clip(te.nearest(total), low, high) - 128).astype("int8")

    return _computed(operation, element)


def _lower_mul(operation: GraphOperation) -> te.Tensor:
    finish = _finish(operation, 255 * 255)
    zeros = [operation.whole(f"zero_point_{role}") for role in "ab"]

    def element(operands: list[te.Tensor], i: Sequence[Expr]) -> Expr:
        a, b = (_read(item, i) - zero for item, zero in zip(operands, zeros, strict=True))
        return finish(a * b)

    return _computed(operation, element)


def _lower_leaky_relu(operation: GraphOperation) -> te.Tensor:
    finish, zero = _finish(operation), operation.whole("zero_point_x")
    factors = [operation.whole(f"multiplier_{sign}") for sign in ("negative", "positive")]

    def element(operands: list[te.Tensor], i: Sequence[Expr]) -> Expr:
        centred = _read(operands[0], i) - zero
        factor = te.select(centred < 0, *(FloatImm(float(by), "float64") for by in factors))
        return finish(centred.astype("float64") * factor)

    return _computed(operation, element)


def _lower_requantize(operation: GraphOperation) -> te.Tensor:
    finish = _finish(operation, 128)
    return _computed(operation, lambda operands, i: finish(_read(operands[0], i)))


def _lower_max_requantized(operation: GraphOperation) -> te.Tensor:
    finish = _finish(operation, 128)

    def element(operands: list[te.Tensor], i: Sequence[Expr]) -> Expr:
        (x,) = operands
        return te.maximum(x[tuple(i)], finish(_read(x, i)))

    return _computed(operation, element)


LOWERINGS = {
    "q_add": GraphLowering(_lower_add),
    "q_leaky_relu": GraphLowering(_lower_leaky_relu),
    "q_max_requantized": GraphLowering(_lower_max_requantized),
    "q_mul": GraphLowering(_lower_mul),
    "q_requantize": GraphLowering(_lower_requantize),
}
"""By operator."""
