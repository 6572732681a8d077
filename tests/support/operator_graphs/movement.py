"""Pools and moves of pixels and channels as graphs of one layer."""

from daedal.compiler.graph.graph import Graph
from daedal.isa.variant import Variant
from tests.support.operator_graphs.layer_graph import Attrs, LayerGraph
from tests.support.pick import Pick

__all__ = ["avg_pool", "concat", "max_pool", "pad_map", "permute", "resize", "slice_map"]


def max_pool(pick: Pick, variant: Variant) -> Graph:
    extents, attrs = pick.window(dilated=False)
    layer = LayerGraph((pick.integer(1, 2), pick.channels(variant), *extents))
    attrs.update(pad_value=-128, **pick.bounds())
    return layer.finish("q_max_pool", pick.params(variant, 1, (15, 18)), attrs)


def avg_pool(pick: Pick, variant: Variant) -> Graph:
    """One row of parameters for each number of elements that a window may have."""
    extents, attrs = pick.window(dilated=False)
    kernel, strides, pads = (attrs[name] for name in ("kernel", "strides", "pads"))
    assert isinstance(kernel, tuple) and isinstance(strides, tuple) and isinstance(pads, tuple)
    counts = []
    for axis in range(2):
        size, before, behind = extents[axis], pads[axis], pads[axis + 2]
        starts = range(-before, size + behind - kernel[axis] + 1, strides[axis])
        counts.append([min(s + kernel[axis], size) - max(s, 0) for s in starts])
    divisors = sorted({h * w for h in counts[0] for w in counts[1]})
    attrs.update(
        pad_value=pick.integer(-128, 127),
        counts_h=tuple(counts[0]),
        counts_w=tuple(counts[1]),
        divisors=tuple(divisors),
        **pick.bounds(),
    )
    layer = LayerGraph((1, pick.channels(variant), *extents))
    return layer.finish("q_avg_pool", pick.params(variant, len(divisors), (16, 22)), attrs)


def slice_map(pick: Pick, variant: Variant) -> Graph:
    """A part of the channels, from a whole block on or from any, and of the pixels."""
    shape = pick.map_shape(variant)
    begins = [0, *(pick.integer(0, extent - 1) for extent in shape[1:])]
    if pick.integer(0, 1):
        begins[1] -= begins[1] % variant.block
    ends = [pick.integer(begin + 1, extent) for begin, extent in zip(begins, shape, strict=True)]
    steps = (1, pick.one_of((1, 1, 2)), *pick.pair(1, 3))
    attrs: Attrs = {
        "begins": tuple(begins),
        "ends": (shape[0], *ends[1:]),
        "steps": steps,
        **pick.bounds(),
    }
    return LayerGraph(shape).finish("q_slice", pick.params(variant, 1, (15, 18)), attrs)


def pad_map(pick: Pick, variant: Variant) -> Graph:
    """Around the pixels, and in half of the cases around the channels."""
    shape = pick.map_shape(variant)
    top, left, bottom, right = (pick.integer(0, 2) for _ in range(4))
    front, back = pick.pair(0, variant.block + 1) if pick.integer(0, 1) else (0, 0)
    attrs: Attrs = {
        "pads": (0, front, top, left, 0, back, bottom, right),
        "pad_value": pick.integer(-128, 127),
        **pick.bounds(),
    }
    return LayerGraph(shape).finish("q_pad", pick.params(variant, 1, (15, 18)), attrs)


def concat(pick: Pick, variant: Variant) -> Graph:
    images, _, *extents = pick.map_shape(variant)
    channels = tuple(pick.channels(variant) for _ in range(pick.integer(2, 3)))
    layer = LayerGraph(*((images, count, *extents) for count in channels))
    params = pick.params(variant, len(channels), (15, 18))
    return layer.finish("q_concat", params, {"channels": channels, **pick.bounds()})


def resize(pick: Pick, variant: Variant) -> Graph:
    layer = LayerGraph(pick.map_shape(variant))
    attrs: Attrs = {"factors": (1, 1, *pick.pair(1, 3)), **pick.bounds()}
    return layer.finish("q_resize", pick.params(variant, 1, (15, 18)), attrs)


def permute(pick: Pick, variant: Variant, wide: bool = False) -> Graph:
    """Pixels to windows or back, blocks of channels to pixels or back, or rows and columns
    exchanged."""
    images, channels = pick.integer(1, 2), pick.channels(variant)
    (down, across), (height, width) = pick.pair(1, 3), pick.pair(1, 4)
    rows, columns = down * height, across * width
    kind = pick.integer(0, 4)
    if kind == 0:
        shape = (images, channels, rows, columns)
        split, order = (images, channels, down, height, across, width), (0, 2, 4, 1, 3, 5)
        target = (images * down * across, channels, height, width)
    elif kind == 1:
        shape = (images * down * across, channels, height, width)
        split, order = (images, down, across, channels, height, width), (0, 3, 1, 4, 2, 5)
        target = (images, channels, rows, columns)
    else:
        channels = variant.block * pick.integer(1, 2)
        shape = (images, channels * down * across, height, width)
        split, order = (images, down, across, channels, height, width), (0, 3, 4, 1, 5, 2)
        target = (images, channels, rows, columns)
        if kind == 3:
            shape, target = target, shape
            split, order = (images, channels, height, down, width, across), (0, 3, 5, 1, 2, 4)
        elif kind == 4:
            shape, split, order = target, target, (0, 1, 3, 2)
            target = (images, channels, columns, rows)
    bounds = pick.wide_bounds() if wide else pick.bounds()
    attrs: Attrs = {"split": split, "order": order, "shape": target, **bounds}
    params = pick.params(variant, 1, (10, 16) if wide else (15, 18))
    return LayerGraph(shape, wide=[0] if wide else []).finish("q_permute", params, attrs)
