"""`flat_operands`: dimensions of operands that a kernel walks over as one become one.

    r[p, c] = sum(x[p // 56, p % 56, k] * w[c, k], k)   =>   r[p, c] = sum(x[p, k] * w[c, k], k)

Here x has 56 columns before, and all its pixels in one dimension afterwards. A tile of pixels is a
box of that one, so a block copies what it needs and no more.
"""

from collections.abc import Sequence

from daedal.compiler import te
from daedal.compiler.tir.expr import Binary, Expr, IntImm, Load
from daedal.compiler.tir.visit import loads, rewrite

__all__ = ["flat_operands"]


def flat_operands(
    inputs: Sequence[te.Tensor], result: te.Tensor, reduction: te.Tensor
) -> tuple[tuple[te.Tensor, ...], te.Tensor, te.Tensor]:
    """The inputs of a kernel with as few dimensions as it needs, and what reads them."""
    found: list[te.Tensor] = []
    for tensor in inputs:
        new, dimension = tensor, len(tensor.shape) - 2
        while dimension >= 0:
            if _are_one(new, dimension, result, reduction):
                old, new = new, _joined(new, dimension)
                whole = _reading(reduction, old, new, dimension)
                result = _reading(_replaced(result, reduction, whole), old, new, dimension)
                reduction = whole
            dimension -= 1
        found.append(new)
    return tuple(found), result, reduction


def _are_one(tensor: te.Tensor, dimension: int, *readers: te.Tensor) -> bool:
    """Whether all elements are read at ``i // n`` and ``i % n`` of two dimensions."""
    assert all(reader.value is not None for reader in readers)
    read = [
        load
        for reader in readers
        if reader.value is not None
        for load in loads(reader.value)
        if load.buffer is tensor
    ]
    return bool(read) and all(_number(load, dimension) is not None for load in read)


def _number(load: Load, dimension: int) -> Expr | None:
    """The index of an element in both dimensions together; None where there is none."""
    extent = load.buffer.shape[dimension + 1]
    outer, inner = load.indices[dimension : dimension + 2]
    if load.pad_value is not None:
        return None
    match outer, inner:
        case Binary("//", a, IntImm(by)), Binary("%", b, IntImm(other)) if a == b:
            return a if by == other == extent else None
    return None


def _joined(tensor: te.Tensor, dimension: int) -> te.Tensor:
    outer, inner = tensor.shape[dimension : dimension + 2]
    shape = (*tensor.shape[:dimension], outer * inner, *tensor.shape[dimension + 2 :])
    return te.placeholder(shape, tensor.dtype, tensor.name)


def _reading(reader: te.Tensor, old: te.Tensor, new: te.Tensor, dimension: int) -> te.Tensor:
    """`reader`, which reads `new` in place of `old`."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.buffer is not old:
            return None
        number = _number(node, dimension)
        assert number is not None
        return Load(new, (*node.indices[:dimension], number, *node.indices[dimension + 2 :]))

    assert reader.value is not None
    return _with(reader, rewrite(reader.value, visit))


def _replaced(result: te.Tensor, old: te.Tensor, new: te.Tensor) -> te.Tensor:
    """`result`, which reads the reduction `new` in place of `old`."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer is old:
            return Load(new, node.indices)
        return None

    assert result.value is not None
    return _with(result, rewrite(result.value, visit))


def _with(tensor: te.Tensor, value: Expr) -> te.Tensor:
    return te.Tensor(tensor.name, tensor.shape, tensor.dtype, "global", tensor.axes, value)
