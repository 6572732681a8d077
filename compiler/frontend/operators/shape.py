"""Constants, and operators that only rename or reshape."""

import math
from collections.abc import Mapping

import numpy as np

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import Array, OnnxNode
from daedal.compiler.frontend.operators.record import ACCELERATOR, FOLDED, ImportedOperator
from daedal.compiler.graph.layout import MAP_RANK

__all__ = ["OPERATORS"]


def import_constant(context: ImportContext, node: OnnxNode) -> None:
    """Constant-1 to -13, numbers only."""
    value = node.tensor("value")
    if value is None:
        value = _listed_constant(node)
    node.finish()
    context.define_constant(node.outputs[0], value)


def _listed_constant(node: OnnxNode) -> Array:
    reals = node.reals("value_floats")
    if reals is not None:
        return np.array(reals, dtype=np.float32)
    integers = node.integers("value_ints", None)
    if integers is not None:
        return np.array(integers, dtype=np.int64)
    real = node.real("value_float", math.nan)
    if not math.isnan(real):
        return np.array(real, dtype=np.float32)
    return np.array(node.integer("value_int", 0), dtype=np.int64)


def import_identity(context: ImportContext, node: OnnxNode) -> None:
    """Identity: another name for its operand."""
    node.finish()
    name = node.input(0)
    if name is None:
        raise node.damaged("operand 0 must be given")
    context.alias(node.outputs[0], name)


def import_dropout(context: ImportContext, node: OnnxNode) -> None:
    """Dropout does nothing at inference; its mask must not be used."""
    node.real("ratio", 0.5)
    node.integer("seed", 0)
    training = context.constant_value(node.input(2))
    if node.input(2) is not None and (training is None or training.any()):
        raise node.refuse("it must not train", "export the model for inference")
    if any(node.outputs[1:]):
        raise node.refuse("the mask must not be used", "export the model for inference")
    import_identity(context, node)


def import_flatten(context: ImportContext, node: OnnxNode) -> None:
    """Flatten-1 to -13."""
    x = context.operand_type(node, 0)
    axis = node.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise node.damaged(f"axis must lie in {x.rank} dimensions, not {axis}")
    split = axis % x.rank if axis < 0 else axis
    shape = (math.prod(x.shape[:split]), math.prod(x.shape[split:]))
    context.emit(node, "reshape", [context.operand(node, 0)], shape=shape)


def import_reshape(context: ImportContext, node: OnnxNode) -> None:
    """Reshape-5 to -14 with a constant shape: 0 copies an extent, -1 takes what is left."""
    x = context.operand_type(node, 0)
    allow_zero = node.integer("allowzero", 0)
    wanted = [int(extent) for extent in context.required_constant(node, 1).reshape(-1)]
    shape = []
    for axis, extent in enumerate(wanted):
        if extent == 0 and not allow_zero:
            if axis >= x.rank:
                raise node.damaged(f"shape {wanted} copies a missing axis")
            extent = x.shape[axis]
        shape.append(extent)
    if shape.count(-1) == 1:
        known = math.prod(extent for extent in shape if extent != -1)
        if known < 1 or x.num_elements % known:
            raise node.damaged(f"shape {wanted} must divide {x.num_elements} elements")
        shape[shape.index(-1)] = x.num_elements // known
    context.emit(node, "reshape", [context.operand(node, 0)], shape=tuple(shape))


def import_squeeze(context: ImportContext, node: OnnxNode) -> None:
    """Squeeze-1 (axes as attribute) to -13 (axes as operand)."""
    x = context.operand_type(node, 0)
    axes = _axes(context, node, x.rank)
    if axes is None:
        axes = tuple(axis for axis, extent in enumerate(x.shape) if extent == 1)
    if any(x.shape[axis] != 1 for axis in axes):
        raise node.damaged(f"axes {list(axes)} of {x} must have extent 1")
    shape = tuple(extent for axis, extent in enumerate(x.shape) if axis not in axes)
    context.emit(node, "reshape", [context.operand(node, 0)], shape=shape)


def import_unsqueeze(context: ImportContext, node: OnnxNode) -> None:
    """Unsqueeze-1 (axes as attribute) to -13 (axes as operand)."""
    x = context.operand_type(node, 0)
    raw = _raw_axes(context, node)
    if raw is None:
        raise node.damaged("axes must be given")
    axes = _check_axes(node, raw, x.rank + len(raw))
    extents = iter(x.shape)
    shape = tuple(1 if axis in axes else next(extents) for axis in range(x.rank + len(axes)))
    context.emit(node, "reshape", [context.operand(node, 0)], shape=shape)


def import_transpose(context: ImportContext, node: OnnxNode) -> None:
    """Transpose-1 to -13."""
    rank = context.operand_type(node, 0).rank
    order = node.integers("perm", tuple(reversed(range(rank))))
    assert order is not None
    context.emit(node, "transpose", [context.operand(node, 0)], order=order)


def import_depth_to_space(context: ImportContext, node: OnnxNode) -> None:
    """DepthToSpace-1 to -13: a transpose of the map that is split into blocks."""
    x, size = context.operand_type(node, 0), node.integer("blocksize", 0)
    columns_first = node.text("mode", "DCR") == "CRD"
    if x.rank != MAP_RANK or size < 1 or x.shape[1] % size**2:
        raise node.damaged(f"blocks of {size} must divide the channels of four axes, not {x}")
    n, channels, height, width = x.shape
    depth = channels // size**2
    split = (n, depth, size, size) if columns_first else (n, size, size, depth)
    order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
    _moved(context, node, (*split, height, width), order, (n, depth, height * size, width * size))


def import_space_to_depth(context: ImportContext, node: OnnxNode) -> None:
    """SpaceToDepth-1 to -13."""
    x, size = context.operand_type(node, 0), node.integer("blocksize", 0)
    if x.rank != MAP_RANK or size < 1 or x.shape[2] % size or x.shape[3] % size:
        raise node.damaged(f"blocks of {size} must divide the image of four axes, not {x}")
    n, channels, height, width = x.shape
    rows, columns = height // size, width // size
    split = (n, channels, rows, size, columns, size)
    target = (n, channels * size**2, rows, columns)
    _moved(context, node, split, (0, 3, 5, 1, 2, 4), target)


def _moved(
    context: ImportContext,
    node: OnnxNode,
    split: tuple[int, ...],
    order: tuple[int, ...],
    shape: tuple[int, ...],
) -> None:
    """Reshape, transpose and reshape."""
    name = context.operand(node, 0)
    for op, role, attrs in (
        ("reshape", "split", {"shape": split}),
        ("transpose", "turned", {"order": order}),
    ):
        output = context.builder.fresh_name(f"{node.outputs[0]}.{role}")
        name = context.builder.add(op, [name], attrs, output=output, name=node.name)
    context.emit(node, "reshape", [name], shape=shape)


def _raw_axes(context: ImportContext, node: OnnxNode) -> tuple[int, ...] | None:
    if context.opset < 13:
        return node.integers("axes", None)
    if node.input(1) is None:
        return None
    return tuple(int(axis) for axis in context.required_constant(node, 1).reshape(-1))


def _axes(context: ImportContext, node: OnnxNode, rank: int) -> tuple[int, ...] | None:
    raw = _raw_axes(context, node)
    return None if raw is None else _check_axes(node, raw, rank)


def _check_axes(node: OnnxNode, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    resolved = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if len(set(resolved)) != len(resolved) or not all(0 <= axis < rank for axis in resolved):
        raise node.damaged(f"axes must be different and lie in {rank} dimensions, not {list(axes)}")
    return resolved


_VIEW = "if the order of the elements stays the same in memory"
_VECTORS = "of whole blocks of channels, between operators of the accelerator"

OPERATORS: Mapping[str, ImportedOperator] = {
    "Constant": ImportedOperator(import_constant, FOLDED),
    "DepthToSpace": ImportedOperator(import_depth_to_space, ACCELERATOR, _VECTORS),
    "Dropout": ImportedOperator(import_dropout, FOLDED, "output mask unused"),
    "Flatten": ImportedOperator(import_flatten, FOLDED, _VIEW),
    "Identity": ImportedOperator(import_identity, FOLDED),
    "Reshape": ImportedOperator(import_reshape, FOLDED, _VIEW),
    "SpaceToDepth": ImportedOperator(import_space_to_depth, ACCELERATOR, _VECTORS),
    "Squeeze": ImportedOperator(import_squeeze, FOLDED, _VIEW),
    "Transpose": ImportedOperator(
        import_transpose,
        ACCELERATOR,
        "permutes channels, exchanges them with pixels, or moves whole blocks of channels",
    ),
    "Unsqueeze": ImportedOperator(import_unsqueeze, FOLDED, _VIEW),
}
