"""Einsum of two tensors as a product of matrices, between transposes and reshapes."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.frontend.operators.record import ACCELERATOR, ImportedOperator

__all__ = ["OPERATORS"]


def import_einsum(context: ImportContext, node: OnnxNode) -> None:
    """Einsum-12 of two tensors: each index of one alone is one of the result, and one that both
    have is one of the result, or summed over."""
    first, second, result = _terms(node)
    shapes = [context.operand_type(node, number).shape for number in range(2)]
    for term, shape in zip((first, second), shapes, strict=True):
        if len(term) != len(shape):
            raise node.damaged(f"{term!r} must name {len(shape)} dimensions")
    extents = dict(zip(first, shapes[0], strict=True))
    for label, extent in zip(second, shapes[1], strict=True):
        if extents.setdefault(label, extent) != extent:
            raise node.refuse(f"{label!r} must be one extent, not two", "expand the operand")
    batch = [label for label in result if label in first and label in second]
    rows = [label for label in result if label not in second]
    columns = [label for label in result if label not in first]
    summed = [label for label in first if label not in result]
    if set(result) | set(summed) != extents.keys() or not summed or set(summed) - set(second):
        raise node.refuse("it must be a product of two matrices", "write it as MatMul")
    sizes = {
        role: math.prod(extents[label] for label in labels)
        for role, labels in (("rows", rows), ("columns", columns), ("summed", summed))
    }
    outer = tuple(extents[label] for label in batch)
    left = _ordered(
        context, node, 0, [*batch, *rows, *summed], first, (*outer, sizes["rows"], sizes["summed"])
    )
    shape = (*outer, sizes["summed"], sizes["columns"])
    right = _ordered(context, node, 1, [*batch, *summed, *columns], second, shape)
    computed = context.builder.is_computed(right)
    if not computed and batch:
        raise node.refuse("weights must be one matrix", "multiply by them before")
    op, attrs = ("matmul", {}) if computed else ("dense", {"transposed": 0})
    order = [*batch, *rows, *columns]
    form = tuple(extents[label] for label in order)
    whole = (*outer, sizes["rows"], sizes["columns"])
    if form == whole and order == list(result):
        context.emit(node, op, [left, right], **attrs)
        return
    base = node.outputs[0]
    builder = context.builder
    product = builder.fresh_name(f"{base}.product")
    builder.add(op, [left, right], attrs, output=product, name=node.name)
    if order == list(result):
        context.emit(node, "reshape", [product], shape=form)
        return
    split = builder.add_fresh("reshape", [product], {"shape": form}, base=f"{base}.split")
    places = tuple(order.index(label) for label in result)
    context.emit(node, "transpose", [split], order=places)


def _terms(node: OnnxNode) -> tuple[str, str, str]:
    """The indices of the operands and of the result. Raises UnsupportedError."""
    left, arrow, result = node.text("equation", "").replace(" ", "").partition("->")
    terms = left.split(",")
    letters = [*terms, result]
    plain = all(term.isalpha() and len(set(term)) == len(term) for term in letters)
    if len(terms) != 2 or not arrow or not plain:
        raise node.refuse(
            "it must have two operands, a result, and each index once in a term", "write it so"
        )
    return terms[0], terms[1], result


def _ordered(
    context: ImportContext,
    node: OnnxNode,
    index: int,
    order: Sequence[str],
    term: str,
    shape: tuple[int, ...],
) -> str:
    """An operand with its axes in `order`, as `shape`."""
    builder, name = context.builder, context.operand(node, index)
    axes = tuple(term.index(label) for label in order)
    value = context.constant_value(node.input(index))
    base = f"{node.outputs[0]}.{'left' if index == 0 else 'right'}"
    if value is not None and value.dtype == np.float32:
        return context.add_constant(base, value.transpose(axes).reshape(shape))
    moves = axes != tuple(range(len(axes))) or builder.types[name].shape != shape
    if moves and not builder.is_computed(name):
        raise node.refuse("quantized weights must be a matrix of inputs and outputs", "turn them")
    if axes != tuple(range(len(axes))):
        name = builder.add_fresh("transpose", [name], {"order": axes}, base=f"{base}.turned")
    if builder.types[name].shape != shape:
        name = builder.add_fresh("reshape", [name], {"shape": shape}, base=base)
    return name


OPERATORS: Mapping[str, ImportedOperator] = {
    "Einsum": ImportedOperator(
        import_einsum, ACCELERATOR, "of two tensors, as a product of matrices"
    ),
}
