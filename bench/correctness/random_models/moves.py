"""Operators that move elements, for random graphs."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.correctness.random_models.net import Net, Value

__all__ = ["MOVES"]


def _any(net: Net, rank: int = 1) -> Value:
    return net.pick(lambda value: value.rank >= rank)


def concat(net: Net) -> None:
    x = _any(net)
    axis = net.integer(0, x.rank - 1)

    def rest(value: Value) -> tuple[int, ...]:
        return value.shape[:axis] + value.shape[axis + 1 :]

    others = [v for v in net.values if v.is_float and v.rank == x.rank and rest(v) == rest(x)]
    operands = [x, *(net.one_of(others) for _ in range(net.integer(1, 2)))]
    if net.chance(0.2):
        operands.append(net.weight((*x.shape[:axis], net.integer(1, 3), *x.shape[axis + 1 :]), 1))
    exact = all(value.exact for value in operands)
    net.op("Concat", operands, exact=exact, axis=axis - x.rank if net.chance(0.3) else axis)


def split(net: Net) -> None:
    x = net.pick(lambda value: value.rank >= 1 and max(value.shape) > 1)
    axis = net.one_of([axis for axis, extent in enumerate(x.shape) if extent > 1])
    extent = x.shape[axis]
    if net.opset >= 18 and net.chance(0.4):
        count = net.integer(2, min(3, extent))
        net.require(-(-extent // count) * (count - 1) < extent)
        net.like("Split", x, outputs=count, axis=axis, num_outputs=count)
        return
    first = net.integer(1, extent - 1)
    net.like("Split", x, net.ints(first, extent - first), outputs=2, axis=axis)


def slices(net: Net) -> None:
    x = _any(net)
    axes = [axis for axis in range(x.rank) if net.chance()] or [x.rank - 1]
    starts, ends, steps = [], [], []
    for axis in axes:
        extent, step = x.shape[axis], net.one_of((1, 1, 1, 2, 3, -1, -2))
        begin = net.integer(0, extent - 1)
        if step > 0:
            end = net.one_of((net.integer(begin + 1, extent), 2**31 - 1, extent))
        else:
            end = net.one_of((-extent - 1, net.integer(0, begin) - extent - 1))
        starts.append(begin - extent if net.chance(0.3) else begin)
        ends.append(end)
        steps.append(step)
    net.like("Slice", x, net.ints(*starts), net.ints(*ends), net.ints(*axes), net.ints(*steps))


def pad(net: Net) -> None:
    x = _any(net)
    mode = net.one_of(("constant", "constant", "reflect", "edge", "wrap"))
    net.require(mode != "wrap" or net.opset >= 19)
    low = -1 if mode == "constant" and min(x.shape) > 2 and net.chance(0.3) else 0
    pads = []
    for _ in range(2):
        pads += [net.integer(low, min(2, extent - 1)) for extent in x.shape]
    operands: list[Value | None] = [x, net.ints(*pads)]
    if mode == "constant" and net.chance():
        operands.append(net.constant(np.float32(net.real(-1, 1))))
    net.op("Pad", operands, exact=x.exact, mode=mode)


def transpose(net: Net) -> None:
    x = _any(net, 2)
    order = [int(axis) for axis in net.rng.permutation(x.rank)]
    net.like("Transpose", x, perm=order)


def reshape(net: Net) -> None:
    x = _any(net)
    shape = list(x.shape)
    kind = net.integer(0, 3)
    if kind == 0 and x.rank >= 2:
        axis = net.integer(0, x.rank - 2)
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    elif kind == 1:
        axis = net.integer(0, x.rank - 1)
        extent = shape[axis]
        one = net.one_of([item for item in range(1, extent + 1) if extent % item == 0])
        shape[axis : axis + 1] = [one, extent // one]
    elif kind == 2:
        shape = [int(extent) for extent in net.rng.permutation(shape)]
    else:
        shape = [0, *shape[1:-1], -1] if x.rank > 1 else [-1]
    if kind != 3 and net.chance(0.3):
        shape[net.integer(0, len(shape) - 1)] = -1
    net.like("Reshape", x, net.ints(*shape))


def computed_reshape(net: Net) -> None:
    """The shape is computed from that of a tensor, as exporters write it."""
    x = _any(net, 2)
    first = net.one("Gather", net.one("Shape", x, exact=True), net.ints(0), exact=True)
    shape = net.one("Concat", first, net.ints(-1), axis=0, exact=True)
    net.like("Reshape", x, shape)


def flatten(net: Net) -> None:
    x = _any(net)
    kind = net.one_of(("Flatten", "Squeeze", "Unsqueeze"))
    if kind == "Flatten":
        net.like(kind, x, axis=net.integer(-x.rank, x.rank))
    elif kind == "Squeeze":
        axes = [axis for axis, extent in enumerate(x.shape) if extent == 1]
        net.require(bool(axes))
        net.like(kind, x, net.ints(net.one_of(axes)))
    else:
        net.require(x.rank < 5)
        net.like(kind, x, net.ints(net.integer(-x.rank - 1, x.rank)))


def gather(net: Net) -> None:
    x = _any(net)
    axis = net.integer(-x.rank, x.rank - 1)
    extent = x.shape[axis]
    kind = net.one_of(("Gather", "Gather", "GatherElements", "GatherND"))
    if kind == "GatherND":
        count = net.integer(1, x.rank)
        rows = net.integer(1, 4)
        places = [net.rng.integers(-size, size, rows) for size in x.shape[:count]]
        net.like(kind, x, net.constant(np.stack(places, -1).astype(np.int64)))
        return
    shape: tuple[int, ...] = tuple(net.integer(1, 4) for _ in range(net.integer(0, 2)))
    if kind == "GatherElements":
        shape = tuple(
            net.integer(1, 5) if at == axis % x.rank else net.integer(1, size)
            for at, size in enumerate(x.shape)
        )
    dtype: Any = net.one_of((np.int64, np.int32))
    indices = net.rng.integers(-extent, extent, shape).astype(dtype)
    net.like(kind, x, net.constant(indices), axis=axis)


def scatter(net: Net) -> None:
    x = _any(net)
    rows = net.integer(1, x.shape[0])
    places = net.rng.permutation(x.shape[0])[:rows].astype(np.int64)
    if net.chance():
        net.one("ScatterND", x, net.constant(places[:, None]), net.weight((rows, *x.shape[1:]), 1))
        return
    indices = np.broadcast_to(
        places.reshape(-1, *([1] * (x.rank - 1))), (rows, *x.shape[1:])
    ).copy()
    net.one("ScatterElements", x, net.constant(indices), net.weight(indices.shape, 1), axis=0)


def expand(net: Net) -> None:
    x = _any(net)
    kind = net.one_of(("Expand", "Tile"))
    if kind == "Tile":
        net.like(kind, x, net.ints(*(net.one_of((1, 1, 2, 3)) for _ in x.shape)))
        return
    shape = [net.integer(1, 4) if extent == 1 else extent for extent in x.shape]
    if net.chance(0.4) and x.rank < 5:
        shape = [net.integer(1, 3), *shape]
    net.like(kind, x, net.ints(*shape))


def resize(net: Net) -> None:
    x = net.pick(lambda value: value.rank in (3, 4))
    axes = x.rank - 2
    mode = net.one_of(("nearest", "nearest", "linear", "linear", "cubic"))
    places = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    if net.opset >= 19:
        places.append("half_pixel_symmetric")
    attributes: dict[str, Any] = {
        "mode": mode, "coordinate_transformation_mode": net.one_of(places)
    }  # fmt: skip
    if mode == "nearest":
        kinds = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        attributes["nearest_mode"] = net.one_of(kinds)
    if mode == "cubic":
        net.require(x.rank == 4)
        attributes["cubic_coeff_a"] = net.one_of((-0.5, -0.75))
    if net.chance():
        scales = [1.0, 1.0, *(net.one_of((0.5, 2.0, 2.0, 3.0, 1.5)) for _ in range(axes))]
        # ONNX's tests and onnxruntime differ where a scaled extent is not whole.
        net.require(all((n * s) % 1 == 0 for n, s in zip(x.shape, scales, strict=True)))
        operands = [x, None, net.constant(np.array(scales, np.float32))]
    else:
        sizes = [*x.shape[:2], *(net.integer(1, 12) for _ in range(axes))]
        operands = [x, None, None, net.ints(*sizes)]
    net.op("Resize", operands, exact=x.exact and mode == "nearest", **attributes)


def depth_to_space(net: Net) -> None:
    x = net.pick(lambda value: value.rank == 4)
    if x.shape[1] % 4 == 0 and net.chance():
        net.like("DepthToSpace", x, blocksize=2, mode=net.one_of(("DCR", "CRD")))
    else:
        net.require(x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0)
        net.like("SpaceToDepth", x, blocksize=2)


def masks(net: Net) -> None:
    x = _any(net, 2)
    kind = net.one_of(("Trilu", "ReverseSequence", "Dropout"))
    if kind == "Trilu":
        at = net.constant(np.array(net.integer(-1, 2), np.int64))
        net.op(kind, [x, at], exact=x.exact, step=x.step, upper=net.integer(0, 1))
    elif kind == "Dropout":
        net.like(kind, x)
    else:
        lengths = [net.integer(1, x.shape[0]) for _ in range(x.shape[1])]
        net.like(kind, x, net.ints(*lengths), time_axis=0, batch_axis=1)


def grid_sample(net: Net) -> None:
    x = net.pick(lambda value: value.rank == 4)
    shape = (x.shape[0], net.integer(1, 5), net.integer(1, 5), 2)
    grid = net.constant(net.rng.uniform(-1.2, 1.2, shape).astype(np.float32))
    bilinear = "linear" if net.opset >= 20 else "bilinear"
    net.one(
        "GridSample",
        x,
        grid,
        mode=bilinear,
        padding_mode=net.one_of(("zeros", "border", "reflection")),
        align_corners=net.integer(0, 1),
    )


def made(net: Net) -> None:
    """Tensors that are made from shapes or numbers, as masks and positions are."""
    x = _any(net)
    kind = net.one_of(("OneHot", "Range", "ConstantOfShape", "CenterCropPad"))
    if kind == "OneHot":
        depth = net.integer(2, 6)
        places = net.rng.integers(-depth, depth, net.integer(1, 5)).astype(np.int64)
        pair = net.constant(np.array([-0.5, 1], np.float32))
        width = net.constant(np.array(depth, np.int64))
        net.one(kind, net.constant(places), width, pair, axis=net.integer(-1, 1), exact=True)
    elif kind == "Range":
        first, last, step = (net.constant(np.array(n, np.int64)) for n in (0, x.shape[-1], 1))
        places = net.one("Cast", net.one(kind, first, last, step, exact=True), to=1, exact=True)
        net.one("Add", x, net.one("Mul", places, net.constant(np.float32(1 / 16))))
    elif kind == "ConstantOfShape":
        shape = net.one("Shape", x, exact=True)
        net.one("Add", x, net.one(kind, shape, exact=True))
    else:
        net.require(net.opset >= 18)
        shape = net.ints(*(max(1, extent + net.integer(-2, 2)) for extent in x.shape))
        net.one(kind, x, shape, exact=x.exact)


MOVES: Mapping[Callable[[Net], None], int] = {
    concat: 4,
    split: 2,
    slices: 3,
    pad: 2,
    transpose: 3,
    reshape: 3,
    computed_reshape: 1,
    flatten: 2,
    gather: 2,
    scatter: 1,
    expand: 2,
    resize: 2,
    depth_to_space: 1,
    masks: 1,
    grid_sample: 1,
    made: 1,
}
"""By how often they are drawn."""
