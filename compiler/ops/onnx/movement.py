"""Operators that move elements: each element of the result is one of an operand, or of several.

Source: ONNX, operators of the same names.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.pointwise import apply
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["LOWERINGS", "moved", "normalized_axis", "splits_dimensions"]

Indices = Sequence[Expr]


def moved(
    operation: Operation,
    x: Operand,
    shape: Sequence[int],
    place: Callable[[Indices], Indices],
) -> te.Tensor:
    """The tensor of `shape` whose element at each index is that of `x` at ``place(index)``."""
    return operation.compute(shape, lambda *i: x[tuple(place(i[: len(shape)]))])


def normalized_axis(operation: Operation, axis: int, rank: int) -> int:
    """`axis` from 0 on, where negative ones count from the end. Raises ModelError."""
    if not -rank <= axis < rank:
        raise operation.node.damaged(f"an axis must be from {-rank} to {rank - 1}, not {axis}")
    return axis % rank


def regrouped(indices: Indices, new: Sequence[int], old: Sequence[int]) -> list[Expr]:
    """Where the element at `indices` of a tensor of shape `new` lies in shape `old`.

    The same elements in row-major order. Dimensions of the same product are taken together, so
    that those which both shapes share keep their index.
    """
    found: list[Expr] = []
    first = 0
    for group, extents in _groups(old, new):
        flat: Expr = IntImm(0)
        for index, extent in zip(indices[first : first + len(group)], group, strict=True):
            flat = flat * extent + index
        first += len(group)
        found += _unravelled(flat, extents)
    return found


def splits_dimensions(new: Sequence[int], old: Sequence[int]) -> bool:
    """Whether `regrouped` only splits dimensions of `old`, so that its places are affine."""
    return all(sum(extent > 1 for extent in extents) <= 1 for _, extents in _groups(old, new))


def _unravelled(flat: Expr, extents: Sequence[int]) -> list[Expr]:
    """The indices in a row-major array whose elements are counted by `flat`."""
    found: list[Expr] = []
    stride = 1
    for dim in range(len(extents) - 1, -1, -1):
        extent = extents[dim]
        inside = flat // stride
        found.append(IntImm(0) if extent == 1 else inside % extent if dim else inside)
        stride *= extent
    return found[::-1]


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """The shortest runs of dimensions with equal products: (of `new`, of `old`)."""
    found: list[tuple[Sequence[int], Sequence[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        start, other = i, j
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        found.append((new[other:j], old[start:i]))
    # What is left over has extents of 1.
    return [*found, (new[j:], old[i:])]


def _reshaped(operation: Operation) -> list[te.Tensor]:
    x, new = operation.operand(0), operation.result.shape
    operation.require(
        math.prod(x.shape) == math.prod(new),
        f"{list(new)} must have as many elements as {list(x.shape)}",
    )
    return [moved(operation, x, new, lambda i: regrouped(i, new, x.shape))]


def _lower_reshape(operation: Operation) -> list[te.Tensor]:
    operation.node.integer("allowzero", 0)
    return _reshaped(operation)


def _lower_flatten(operation: Operation) -> list[te.Tensor]:
    operation.node.integer("axis", 1)
    return _reshaped(operation)


def _lower_squeeze(operation: Operation) -> list[te.Tensor]:
    operation.node.integers("axes", None)
    return _reshaped(operation)


def _lower_transpose(operation: Operation) -> list[te.Tensor]:
    x = operation.operand(0)
    order = operation.node.integers("perm", None) or tuple(range(x.rank))[::-1]
    if sorted(order) != list(range(x.rank)):
        raise operation.node.damaged(f"perm must permute {x.rank} axes, not be {list(order)}")
    shape = [x.shape[axis] for axis in order]
    return [moved(operation, x, shape, lambda i: [i[order.index(axis)] for axis in range(x.rank)])]


def _lower_slice(operation: Operation) -> list[te.Tensor]:
    """Bounds are attributes below opset 10, constant operands from there on."""
    x = operation.operand(0)
    if operation.opset >= 10:
        starts, ends, axes, steps = (operation.integers(number) for number in range(1, 5))
    else:
        starts, ends, axes = (
            operation.node.integers(name, None) for name in ("starts", "ends", "axes")
        )
        steps = None
    if starts is None or ends is None:
        raise operation.node.damaged("starts and ends must be given")
    axes = axes or tuple(range(len(starts)))
    steps = steps or (1,) * len(starts)
    if len({len(item) for item in (starts, ends, axes, steps)}) > 1 or 0 in steps:
        raise operation.node.damaged("starts, ends, axes and steps must match; no step is 0")
    ranges = [range(extent) for extent in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dim = normalized_axis(operation, axis, x.rank)
        ranges[dim] = range(*slice(start, end, step).indices(x.shape[dim]))
    return [
        moved(
            operation,
            x,
            [len(item) for item in ranges],
            lambda i: [
                index * item.step + item.start for index, item in zip(i, ranges, strict=True)
            ],
        )
    ]


def _lower_concat(operation: Operation) -> list[te.Tensor]:
    """A chain of selections; operands that are not selected are read at a clamped index."""
    count = max(len(operation.operands), 1)
    operands = [operation.operand(index) for index in range(count)]
    operands = [item for item in operands if 0 not in item.shape] or operands
    operation.require(len({item.rank for item in operands}) == 1, "all operands must have one rank")
    axis = normalized_axis(operation, operation.node.integer("axis", 1), operands[0].rank)
    extents = [item.shape[axis] for item in operands]

    def element(*i: Expr) -> Expr:
        value: Expr | None = None
        for number in range(len(operands) - 1, -1, -1):
            start, extent = sum(extents[:number]), extents[number]
            inside = te.clip(i[axis] - start, 0, extent - 1) if len(operands) > 1 else i[axis]
            read = operands[number][(*i[:axis], inside, *i[axis + 1 :])]
            value = read if value is None else te.select(i[axis] < start + extent, read, value)
        assert value is not None
        return value

    shape = [*operands[0].shape]
    shape[axis] = sum(extents)
    return [operation.compute(shape, element)]


def _lower_split(operation: Operation) -> list[te.Tensor]:
    """Sizes are an attribute below opset 13, a constant operand or a number from there on."""
    x = operation.operand(0)
    axis = normalized_axis(operation, operation.node.integer("axis", 0), x.rank)
    extent, count = x.shape[axis], len(operation.results)
    count = operation.node.integer("num_outputs", count)
    part = -(-extent // max(count, 1))
    equal = tuple(max(min(part, extent - part * number), 0) for number in range(count))
    attribute = operation.node.integers("split", None)
    sizes = operation.integers(1) or attribute or equal
    if sum(sizes) != extent or len(sizes) < len(operation.results):
        raise operation.node.damaged(f"sizes must sum up to {extent}, not be {list(sizes)}")
    return [
        x.tensor if result is None else _part(operation, x, axis, sum(sizes[:number]), size)
        for number, (size, result) in enumerate(zip(sizes, operation.results, strict=False))
    ]


def _part(operation: Operation, x: Operand, axis: int, start: int, size: int) -> te.Tensor:
    shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]
    return moved(operation, x, shape, lambda i: [*i[:axis], i[axis] + start, *i[axis + 1 :]])


def _lower_tile(operation: Operation) -> list[te.Tensor]:
    x, shape = operation.operand(0), operation.result.shape
    operation.require(
        len(shape) == x.rank
        and all(new % old == 0 for old, new in zip(x.shape, shape, strict=True)),
        f"{list(shape)} must be a multiple of {list(x.shape)}",
    )
    return [
        moved(
            operation,
            x,
            shape,
            lambda i: [
                index if old == new else index % old
                for index, old, new in zip(i, x.shape, shape, strict=True)
            ],
        )
    ]


def _lower_expand(operation: Operation) -> list[te.Tensor]:
    return apply(operation, lambda x: x, operation.operand(0))


def _depth_first(operation: Operation) -> bool:
    """Whether the place inside a block counts above the channel: mode DCR, else CRD."""
    mode = operation.node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise operation.node.damaged(f"mode must be DCR or CRD, not {mode!r}")
    return mode == "DCR"


def _lower_depth_to_space(operation: Operation) -> list[te.Tensor]:
    x, block = operation.operand(0), operation.node.integer("blocksize", 1)
    depth_first = _depth_first(operation)
    operation.require(
        x.rank == 4 and block > 0 and x.shape[1] % block**2 == 0,
        f"blocks of {block} must divide the channels of four axes, not {list(x.shape)}",
    )
    batch, depth, height, width = x.shape
    channels = depth // block**2

    def place(i: Indices) -> Indices:
        inside = i[2] % block * block + i[3] % block
        channel = inside * channels + i[1] if depth_first else i[1] * block**2 + inside
        return i[0], channel, i[2] // block, i[3] // block

    return [moved(operation, x, (batch, channels, height * block, width * block), place)]


def _lower_space_to_depth(operation: Operation) -> list[te.Tensor]:
    x, block = operation.operand(0), operation.node.integer("blocksize", 1)
    depth_first = _depth_first(operation)
    operation.require(
        x.rank == 4 and block > 0 and x.shape[2] % block == 0 and x.shape[3] % block == 0,
        f"blocks of {block} must divide the image of four axes, not {list(x.shape)}",
    )
    batch, channels, height, width = x.shape

    def place(i: Indices) -> Indices:
        inside = i[1] // channels if depth_first else i[1] % block**2
        channel = i[1] % channels if depth_first else i[1] // block**2
        return i[0], channel, i[2] * block + inside // block, i[3] * block + inside % block

    shape = (batch, channels * block**2, height // block, width // block)
    return [moved(operation, x, shape, place)]


def _lower_reverse_sequence(operation: Operation) -> list[te.Tensor]:
    """The first elements of each sequence in the other order; the others stay where they are."""
    x, lengths = operation.operand(0), operation.operand(1)
    batch = normalized_axis(operation, operation.node.integer("batch_axis", 1), x.rank)
    time = normalized_axis(operation, operation.node.integer("time_axis", 0), x.rank)

    def place(i: Indices) -> Indices:
        length = lengths[i[batch]].astype("int32")
        reversed_ = te.clip(length - 1 - i[time], 0, x.shape[time] - 1)
        index = te.select(i[time] < length, reversed_, i[time])
        return *i[:time], index, *i[time + 1 :]

    return [moved(operation, x, x.shape, place)]


LOWERINGS: Mapping[str, Lowering] = {
    "Concat": _lower_concat,
    "DepthToSpace": _lower_depth_to_space,
    "Expand": _lower_expand,
    "Flatten": _lower_flatten,
    "Reshape": _lower_reshape,
    "ReverseSequence": _lower_reverse_sequence,
    "Slice": _lower_slice,
    "SpaceToDepth": _lower_space_to_depth,
    "Split": _lower_split,
    "Squeeze": _lower_squeeze,
    "Tile": _lower_tile,
    "Transpose": _lower_transpose,
    "Unsqueeze": _lower_squeeze,
}
"""By operator."""
