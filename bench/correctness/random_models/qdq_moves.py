"""Operators that move elements, for random quantized graphs: of floats, or of the integers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.correctness.random_models.net import Value
from bench.correctness.random_models.qdq_net import QdqNet

__all__ = ["MOVES"]

Move = Callable[[Value], Value]


def _moved(net: QdqNet, x: Value, move: Move) -> None:
    """The move of floats or of integers, with the scale of the operand, another one, or none."""
    known = net.known.get(x.name)
    if known is not None and known.is_byte and net.chance(0.2):
        net.dequantized(move(known.integers), *known.operands)
        return
    y = move(x)
    if net.chance(0.2):
        net.ends.append(y)
        return
    net.quantized(y, x if net.chance(0.7) else None)


def transpose(net: QdqNet) -> None:
    """Channels to the end or from there, rows and columns exchanged, or any other order."""
    x = net.end(lambda value: value.rank >= 2)
    orders = {
        3: ((0, 2, 1),),
        4: ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 1, 3)),
    }.get(x.rank, ())
    order = [int(axis) for axis in net.rng.permutation(x.rank)]
    if orders and net.chance(0.8):
        order = list(net.one_of(orders))
    _moved(net, x, lambda value: net.one("Transpose", value, perm=order))


def reshape(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank >= 1)
    shape = list(x.shape)
    kind = net.integer(0, 5)
    if kind == 0 and x.rank >= 2:
        axis = net.integer(0, x.rank - 2)
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    elif kind == 1 and x.rank <= 4:
        axis = net.integer(0, x.rank - 1)
        one = net.one_of([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0])
        shape[axis : axis + 1] = [one, shape[axis] // one]
    elif kind == 2:
        shape = [int(extent) for extent in net.rng.permutation(shape)]
    elif kind == 3 and x.rank >= 3:
        shape = [shape[0], shape[1], -1]
    elif kind == 4 and x.rank >= 2:
        _moved(net, x, lambda value: net.one("Flatten", value, axis=1))
        return
    else:
        shape = [0, *shape[1:-1], -1] if x.rank > 1 else [-1]
    target = net.ints(*shape)
    _moved(net, x, lambda value: net.one("Reshape", value, target))


def computed_reshape(net: QdqNet) -> None:
    """The shape is computed from that of a tensor, as exporters write it."""
    x = net.end(lambda value: value.rank >= 2)
    batch = net.one("Gather", net.one("Shape", x), net.ints(0))
    shape = net.op("Concat", [batch, net.ints(-1)], axis=0)[0]
    _moved(net, x, lambda value: net.one("Reshape", value, shape))


def squeeze(net: QdqNet) -> None:
    x = net.end()
    ones = [axis for axis, extent in enumerate(x.shape) if extent == 1 and x.rank > 1]
    kind, axis = "Squeeze", net.one_of(ones) if ones else 0
    if not ones or net.chance():
        net.require(x.rank < 5)
        kind, axis = "Unsqueeze", net.integer(0, x.rank)
    operands, attributes = _axes(net, [axis])
    _moved(net, x, lambda value: net.op(kind, [value, *operands], **attributes)[0])


def shuffle(net: QdqNet) -> None:
    """Groups of channels exchanged with the channels of each."""
    x = net.end(lambda value: value.rank == 4)
    axis = net.integer(1, 3)
    extent = x.shape[axis]
    groups = net.one_of([n for n in range(1, extent + 1) if extent % n == 0])
    parts = net.ints(*x.shape[:axis], groups, extent // groups, *x.shape[axis + 1 :])
    whole = net.ints(*x.shape)
    order = list(range(5))
    order[axis], order[axis + 1] = axis + 1, axis

    def move(value: Value) -> Value:
        turned = net.one("Transpose", net.one("Reshape", value, parts), perm=order)
        return net.one("Reshape", turned, whole)

    _moved(net, x, move)


def concat(net: QdqNet) -> None:
    """Two to four operands along any axis, some of them the same, some of them constants."""
    x = net.end()
    axis = net.integer(0, x.rank - 1) if net.chance(0.4) or x.rank < 2 else 1

    def rest(value: Value) -> tuple[int, ...]:
        return value.shape[:axis] + value.shape[axis + 1 :]

    same = [value for value in net.ends if value.rank == x.rank and rest(value) == rest(x)]
    others = [net.one_of(same) for _ in range(net.integer(0, 3))]
    if net.chance(0.15):
        shape = list(x.shape)
        shape[axis] = net.integer(1, 8)
        constant = net.constant(net.normal(shape))
        others.append(net.fake_constant(constant) if net.chance() else constant)
    operands = [x, *others]
    net.rng.shuffle(operands)  # type: ignore[arg-type]
    y = net.op("Concat", operands, axis=axis - x.rank if net.chance(0.2) else axis)[0]
    net.quantized(y, x if net.chance(0.3) else None)


def slices(net: QdqNet) -> None:
    x = net.end()
    axes = [axis for axis in range(x.rank) if net.chance(0.4)] or [x.rank - 1]
    starts, ends, steps = [], [], []
    for axis in axes:
        extent, step = x.shape[axis], net.one_of((1, 1, 1, 1, 2, 3, -1))
        begin = net.integer(0, extent - 1)
        end = net.one_of((net.integer(begin + 1, extent), 2**31 - 1, extent))
        if step < 0:
            end = -extent - 1
        starts.append(begin - extent if net.chance(0.3) else begin)
        ends.append(end)
        steps.append(step)
    operands = [net.ints(*items) for items in (starts, ends, axes, steps)]
    _moved(net, x, lambda value: net.one("Slice", value, *operands))


def split(net: QdqNet) -> None:
    """Parts of which each is read, or only one."""
    x = net.end(lambda value: max(value.shape) > 1)
    axis = net.one_of([axis for axis, extent in enumerate(x.shape) if extent > 1])
    extent = x.shape[axis]
    first = extent // 2 if extent % 2 == 0 and net.chance() else net.integer(1, extent - 1)
    sizes = [first, extent - first]
    operands = [net.ints(*sizes)] if net.opset >= 13 else []
    attributes: dict[str, Any] = {"axis": axis, "split": None if operands else sizes}
    known = net.known.get(x.name)
    if known is not None and known.is_byte and net.chance(0.2):
        for part in net.op("Split", [known.integers, *operands], outputs=2, **attributes):
            net.dequantized(part, *known.operands)
        return
    for part in net.op("Split", [x, *operands], outputs=2, **attributes):
        if net.chance(0.2):
            net.ends.append(part)
        else:
            net.quantized(part, x if net.chance(0.7) else None)


def pad(net: QdqNet) -> None:
    x = net.end()
    mode = net.one_of(("constant", "constant", "constant", "reflect", "edge"))
    pads = [
        net.integer(0, min(2, extent - 1)) if net.chance(0.5) else 0
        for _ in range(2)
        for extent in x.shape
    ]
    pads[0] = pads[x.rank] = 0
    operands: list[Value] = [net.ints(*pads)]
    if mode == "constant" and net.chance(0.4):
        operands.append(net.constant(np.float32(net.one_of((0.0, net.real(-1, 1))))))
    y = net.one("Pad", x, *operands, mode=mode)
    net.quantized(y, x if net.chance(0.6) else None)


def resize(net: QdqNet) -> None:
    """Nearest by whole factors, wherever the channels are; sometimes anything else."""
    x = net.end(lambda value: value.rank in (3, 4))
    kind = net.integer(0, 4)
    factors = [1, *(net.one_of((1, 1, 2, 3)) for _ in range(x.rank - 1))]
    if net.chance(0.7):
        factors[1] = 1
    attributes: dict[str, Any] = {
        "mode": "nearest",
        "coordinate_transformation_mode": net.one_of(("asymmetric", "half_pixel")),
        "nearest_mode": net.one_of(("floor", "round_prefer_floor", "round_prefer_ceil")),
    }
    empty = net.constant(np.zeros(0, np.float32)) if net.opset < 13 else None
    if kind == 0:
        net.require(x.rank == 4)
        attributes = {
            "mode": "linear",
            "coordinate_transformation_mode": net.one_of(("half_pixel", "align_corners")),
        }
        sizes = net.ints(*x.shape[:2], *(net.integer(1, 12) for _ in range(2)))
        operands = [empty, empty, sizes]
    else:
        operands = [empty, net.constant(np.array(factors, np.float32))]
    y = net.op("Resize", [x, *operands], **attributes)[0]
    net.quantized(y, x if net.chance(0.7) else None)


def depth_to_space(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank == 4)
    if x.shape[1] % 4 == 0 and net.chance():
        mode = net.one_of(("DCR", "CRD"))
        _moved(net, x, lambda value: net.one("DepthToSpace", value, blocksize=2, mode=mode))
    else:
        net.require(x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0)
        _moved(net, x, lambda value: net.one("SpaceToDepth", value, blocksize=2))


def gather(net: QdqNet) -> None:
    x = net.end()
    axis = net.integer(0, x.rank - 1)
    extent = x.shape[axis]
    if net.chance():
        first = net.integer(0, extent - 1)
        indices = np.arange(first, net.integer(first, extent - 1) + 1)
    else:
        indices = net.rng.integers(-extent, extent, net.integer(1, 5))
    if net.chance(0.3):
        indices = np.asarray(indices[0])
    operand = net.constant(indices.astype(net.one_of((np.int64, np.int32))))
    _moved(net, x, lambda value: net.one("Gather", value, operand, axis=axis))


def expand(net: QdqNet) -> None:
    x = net.end(lambda value: value.rank < 5)
    if net.chance():
        repeats = net.ints(*(net.one_of((1, 1, 2)) for _ in x.shape))
        _moved(net, x, lambda value: net.one("Tile", value, repeats))
        return
    shape = net.ints(*(net.integer(1, 4) if extent == 1 else extent for extent in x.shape))
    _moved(net, x, lambda value: net.one("Expand", value, shape))


def _axes(net: QdqNet, axes: list[int]) -> tuple[list[Value], dict[str, Any]]:
    """As an operand, or as the attribute of older opsets."""
    return ([net.ints(*axes)], {}) if net.opset >= 13 else ([], {"axes": axes})


MOVES: Mapping[Callable[[QdqNet], None], int] = {
    transpose: 5,
    reshape: 4,
    computed_reshape: 1,
    squeeze: 2,
    shuffle: 2,
    concat: 5,
    slices: 3,
    split: 3,
    pad: 2,
    resize: 2,
    depth_to_space: 2,
    gather: 2,
    expand: 1,
}
"""By how often they are drawn."""
