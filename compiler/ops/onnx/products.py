"""Products of matrices: MatMul, Gemm, Einsum, and those on integers.

Each is a sum of products of its own, then an elementwise epilogue where anything follows the sum.
"""

from collections.abc import Mapping, Sequence

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import centered, converted, requantized, wide
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation, buffer_shape
from daedal.compiler.tir.dtype import is_integer
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["LOWERINGS", "matrix_product"]


def matrix_product(operation: Operation, a: Operand, b: Operand) -> Operand:
    """``a @ b`` of shapes (..., M, K) and (..., K, N), as numpy broadcasts them, in `wide` dtype.

    Raises ModelError where the shapes do not match.
    """
    if not a.rank or not b.rank:
        raise operation.node.damaged("operands of a product must have a dimension")
    depth = a.shape[-1]
    if depth != (b.shape[-2] if b.rank > 1 else b.shape[0]):
        raise operation.node.damaged(
            f"the operands {list(a.shape)} and {list(b.shape)} must have one inner extent"
        )
    shape = (*_batch(operation, a, b), *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))
    k, dtype = te.reduce_axis(depth, "k"), wide(a.dtype)

    def formula(*i: Expr) -> Expr:
        rest = list(i[: len(shape)])
        column = [rest.pop()] if b.rank > 1 else []
        row = [rest.pop()] if a.rank > 1 else []
        left, right = a.broadcast([*rest, *row, k]), b.broadcast([*rest, k, *column])
        return te.sum(left.astype(dtype) * right.astype(dtype), k)

    return Operand(operation.compute(shape, formula, "sums"), shape)


def _batch(operation: Operation, a: Operand, b: Operand) -> tuple[int, ...]:
    """The dimensions before the matrices, broadcast."""
    left, right = a.shape[:-2], b.shape[:-2]
    rank = max(len(left), len(right))
    found = []
    for one, other in zip(
        (*[1] * (rank - len(left)), *left), (*[1] * (rank - len(right)), *right), strict=True
    ):
        if one != other and 1 not in (one, other):
            raise operation.node.damaged(
                f"the operands {list(a.shape)} and {list(b.shape)} must broadcast"
            )
        found.append(max(one, other))
    return tuple(found)


def _matmul(operation: Operation) -> list[te.Tensor]:
    """MatMul-1, -9, -13."""
    product = matrix_product(operation, operation.operand(0), operation.operand(1))
    return [converted(operation, product.tensor, operation.result.dtype)]


def _gemm(operation: Operation) -> list[te.Tensor]:
    """Gemm-7 to -13: ``alpha * A' B' + beta * C``; transposed operands are read where they are."""
    node, c = operation.node, operation.optional(2)
    a, b = operation.operand(0), operation.operand(1)
    if a.rank != 2 or b.rank != 2:
        raise node.damaged("operands of Gemm must be matrices")
    across, down = bool(node.integer("transA", 0)), bool(node.integer("transB", 0))
    rows, depth = reversed(a.shape) if across else a.shape
    inner, columns = reversed(b.shape) if down else b.shape
    if depth != inner:
        raise node.damaged("operands of Gemm must have one inner extent")
    k, dtype = te.reduce_axis(depth, "k"), wide(a.dtype)

    def product(i: Expr, j: Expr) -> Expr:
        left = a[k, i] if across else a[i, k]
        right = b[j, k] if down else b[k, j]
        return te.sum(left.astype(dtype) * right.astype(dtype), k)

    total = operation.compute((rows, columns), product, "sums")
    alpha, beta = _factor(operation, "alpha", dtype), _factor(operation, "beta", dtype)
    if c is None or beta == 0:
        if alpha == 1:
            return [converted(operation, total, a.dtype)]
        return [operation.compute(total.shape, lambda *i: (total[i] * alpha).astype(a.dtype))]

    def epilogue(*i: Expr) -> Expr:
        scaled = total[i] if alpha == 1 else total[i] * alpha
        added = c.broadcast(i).astype(dtype)
        return (scaled + (added if beta == 1 else added * beta)).astype(a.dtype)

    return [operation.compute(total.shape, epilogue)]


def _factor(operation: Operation, name: str, dtype: str) -> int | float:
    """A factor of Gemm. Raises UnsupportedError where integers meet a fraction."""
    value = operation.node.real(name, 1.0)
    if not is_integer(dtype):
        return value
    if value != int(value):
        raise operation.node.refuse(f"{name} of integers must be whole", "use float operands")
    return int(value)


def _einsum(operation: Operation) -> list[te.Tensor]:
    """Einsum-12: two operands at a time, from the left."""
    operands = [operation.operand(index) for index in range(len(operation.operands))]
    inputs, output = _equation(operation, operands)
    found, labels = operands[0], inputs[0]
    if len(operands) == 1:
        found = _contract(operation, [(found, labels)], output)
    for number in range(1, len(operands)):
        later = {label for other in inputs[number + 1 :] for label in other}
        kept = [
            label
            for label in dict.fromkeys([*labels, *inputs[number]])
            if label in later or label in output
        ]
        wanted = output if number + 1 == len(operands) else tuple(kept)
        pair = [(found, labels), (operands[number], inputs[number])]
        found, labels = _contract(operation, pair, wanted), wanted
    return [converted(operation, found.tensor, operation.result.dtype)]


Labels = tuple[str, ...]


def _equation(operation: Operation, operands: Sequence[Operand]) -> tuple[list[Labels], Labels]:
    """The label of each dimension of the operands and of the result.

    A dimension in an ellipsis has its distance from the ellipsis' end as label.
    """
    node = operation.node
    text = node.text("equation", "").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise node.damaged(f"the equation must have {len(operands)} terms, not {len(terms)}")
    hidden = [operand.rank - _letters(term) for operand, term in zip(operands, terms, strict=True)]
    inputs = [_labels(operation, *pair) for pair in zip(terms, hidden, strict=True)]
    dots = max(hidden)
    if arrow:
        output = _labels(operation, right, dots if "..." in right else 0)
    else:
        every = [label for term in inputs for label in term if label.isalpha()]
        once = sorted(label for label in every if every.count(label) == 1)
        output = (*(str(dots - number) for number in range(dots)), *once)
    unknown = set(output) - {label for term in inputs for label in term}
    if unknown or len(set(output)) < len(output):
        raise node.damaged("each label of the result must be of an operand, and be there once")
    return inputs, output


def _letters(term: str) -> int:
    return len(term.replace("...", ""))


def _labels(operation: Operation, term: str, hidden: int) -> Labels:
    """The labels of a term whose ellipsis stands for `hidden` dimensions."""
    first, ellipsis, last = term.partition("...")
    letters = first + last
    if hidden < 0 or (hidden and not ellipsis) or (letters and not letters.isalpha()):
        raise operation.node.damaged(f"the term {term!r} must be letters that fit its operand")
    return (*first, *(str(hidden - number) for number in range(hidden)), *last)


def _contract(
    operation: Operation, terms: Sequence[tuple[Operand, Labels]], output: Labels
) -> Operand:
    """The sum of the products of all terms over every label that `output` does not have."""
    extents: dict[str, int] = {}
    for operand, labels in terms:
        for label, extent in zip(labels, operand.shape, strict=True):
            known = extents.get(label, 1)
            if known != extent and 1 not in (known, extent):
                raise operation.node.damaged(
                    f"label {label!r} must have one extent, not {known} and {extent}"
                )
            extents[label] = max(known, extent)
    axes: dict[str, Axis] = {
        label: te.reduce_axis(extents[label], f"k{number}")
        for number, label in enumerate(label for label in extents if label not in output)
    }
    shape = tuple(extents[label] for label in output)
    dtype = wide(terms[0][0].dtype)

    def formula(*i: Expr) -> Expr:
        index: dict[str, Expr] = {**dict(zip(output, i, strict=False)), **axes}
        value: Expr | None = None
        for operand, labels in terms:
            read = operand.broadcast([index[label] for label in labels]).astype(dtype)
            value = read if value is None else value * read
        assert value is not None
        return te.sum(value, list(axes.values())) if axes else value

    return Operand(operation.compute(shape, formula, "contracted"), shape)


def _matmul_integer(operation: Operation) -> list[te.Tensor]:
    """MatMulInteger-10: zero points for all, or per row of A and per column of B."""
    a = _centered_rows(operation, operation.operand(0), operation.optional(2))
    b = centered(operation, operation.operand(1), operation.optional(3), -1)
    return [matrix_product(operation, a, b).tensor]


def _centered_rows(operation: Operation, a: Operand, zero_point: Operand | None) -> Operand:
    return centered(operation, a, zero_point, -2 if a.rank > 1 else None)


def _qlinear_matmul(operation: Operation) -> list[te.Tensor]:
    """QLinearMatMul-10, -21: ``saturate(round(A B * (a_scale * b_scale / y_scale)) + zero)``."""
    a, b = operation.operand(0), operation.operand(3)
    a_scale, b_scale, y_scale = (operation.operand(index) for index in (1, 4, 6))
    zero = operation.optional(7)
    total = matrix_product(
        operation,
        _centered_rows(operation, a, operation.optional(2)),
        centered(operation, b, operation.optional(5), -1),
    )
    if min(a.rank, b.rank) < 2 and max(a_scale.rank, b_scale.rank, y_scale.rank) > 0:
        raise operation.node.refuse("scales of vectors must be numbers", "use matrices")

    def formula(*i: Expr) -> Expr:
        scale = _of_row(a_scale, i).astype("float32") * b_scale.broadcast(i).astype("float32")
        scale = scale / _of_row(y_scale, i).astype("float32")
        offset = None if zero is None else _of_row(zero, i)
        return requantized(total.tensor[i], scale, offset, operation.result.dtype)

    return [operation.compute(buffer_shape(total.shape), formula)]


def _of_row(operand: Operand, i: tuple[Expr, ...]) -> Expr:
    """The element of a scale or zero point: rank 1 is one per row, a higher rank broadcasts."""
    if operand.rank == 1 and operand.shape != (1,):
        return operand[i[-2]]
    return operand.broadcast(i)


LOWERINGS: Mapping[str, Lowering] = {
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
}
"""By operator."""
