"""GridSample and AffineGrid: elements read at coordinates that another tensor holds.

Coordinates from -1 to 1 span an axis. Each element that is read outside is 0, the border's element,
or a reflection. Reflecting the elements gives what reflecting the coordinate gives, as the kernels
are symmetric.

Source: ONNX, GridSample of opsets 16 and 20, AffineGrid of opset 20.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.tir.dtype import is_float
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["LOWERINGS"]

MAX_TAPS = 64
"""Most elements per result: cubic over three axes."""

FARTHEST = 1 << 24
"""Coordinates are limited to this, so that indices around them do not wrap."""

CUBIC = -0.75
"""The coefficient of Keys' kernel, which ONNX fixes."""

_MODES = {"bicubic": "cubic", "bilinear": "linear"}
"""Names of opset 16, and those since opset 20."""


@dataclass(frozen=True)
class _Sampling:
    """The attributes of a node."""

    mode: str
    padding: str
    aligned: bool

    def coordinate(self, value: Expr, extent: int) -> Expr:
        """A coordinate of the grid as one of an axis, whose elements lie at 0, 1, and so on."""
        if self.aligned:
            place = (value + 1) / 2 * (extent - 1)
        else:
            place = ((value + 1) * extent - 1) / 2
        if self.mode == "nearest":
            place = te.round(place)
        place = te.clip(place, -FARTHEST, FARTHEST)
        if self.padding != "border":
            return place
        edge = 0.0 if self.aligned else 0.5
        outside = (place < -edge) | (place > extent - 1 + edge)
        return te.select(outside, te.clip(place, 0, extent - 1), place)

    def inside(self, index: Expr, extent: int) -> Expr:
        """The element that stands for the one at `index`."""
        if self.padding == "zeros":
            return index
        if self.padding == "border":
            return te.clip(index, 0, extent - 1)
        if self.aligned:
            period, last = max(2 * (extent - 1), 1), 2 * (extent - 1)
        else:
            period, last = 2 * extent, 2 * extent - 1
        place = index % period
        # The last minimum changes nothing: it is the bound that the check of reads can see.
        return te.minimum(te.minimum(place, last - place), extent - 1)

    def weights(self, fraction: Expr) -> list[tuple[int, Expr]]:
        """Places relative to the element before a coordinate, and their weights."""
        if self.mode == "linear":
            return [(0, 1 - fraction), (1, fraction)]
        return [
            (-1, _outer(fraction + 1)),
            (0, _inner(fraction)),
            (1, _inner(1 - fraction)),
            (2, _outer(2 - fraction)),
        ]


def _inner(distance: Expr) -> Expr:
    """Keys' kernel up to 1."""
    return (distance * (CUBIC + 2) - (CUBIC + 3)) * distance * distance + 1


def _outer(distance: Expr) -> Expr:
    """Keys' kernel from 1 to 2."""
    return ((distance - 5) * distance + 8) * distance * CUBIC - 4 * CUBIC


def _sampling(operation: Operation) -> _Sampling:
    node = operation.node
    mode = node.text("mode", "linear" if operation.opset >= 20 else "bilinear")
    padding = node.text("padding_mode", "zeros")
    found = _Sampling(_MODES.get(mode, mode), padding, bool(node.integer("align_corners", 0)))
    if found.mode not in ("nearest", "linear", "cubic"):
        raise node.damaged(f"mode must be nearest, linear or cubic, not {mode!r}")
    if padding not in ("zeros", "border", "reflection"):
        raise node.damaged(f"padding_mode must be zeros, border or reflection, not {padding!r}")
    return found


def _lower(operation: Operation) -> list[te.Tensor]:
    x, grid, sampling = operation.operand(0), operation.operand(1), _sampling(operation)
    depth = x.rank - 2
    if depth < 1 or grid.rank != x.rank or grid.shape[-1] != depth:
        raise operation.node.damaged(f"a grid of {list(grid.shape)} does not fit {list(x.shape)}")
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[sampling.mode] ** depth
    if taps > MAX_TAPS or (taps > 1 and not is_float(x.dtype)):
        raise operation.node.refuse(
            f"elements must be floats and at most {MAX_TAPS} per result, not {x.dtype} and {taps}",
            "it is interpreted",
        )
    work = "float64" if "float64" in (x.dtype, grid.dtype) else "float32"
    # The grid counts its coordinates from the last axis on.
    places = [
        _places(operation, sampling, depth - 1 - dim, x.shape[2 + dim], work)
        for dim in range(depth)
    ]

    def element(*i: Expr) -> Expr:
        found = [place[(i[0], *i[2:])] for place in places]
        return _sampled(x, sampling, (i[0], i[1]), found).astype(x.dtype)

    return [operation.compute((*x.shape[:2], *grid.shape[1:-1]), element)]


def _places(
    operation: Operation, sampling: _Sampling, number: int, extent: int, work: str
) -> te.Tensor:
    """Coordinate `number` of each place of the grid, as one of an axis of `extent` elements."""
    grid = operation.operand(1)
    return operation.compute(
        grid.shape[:-1],
        lambda *i: sampling.coordinate(grid[(*i, number)].astype(work), extent),
        "place",
    )


def _sampled(
    x: Operand, sampling: _Sampling, leading: tuple[Expr, ...], places: Sequence[Expr]
) -> Expr:
    """`x` at `places` of its last axes and at the indices `leading` of the others."""
    if not places:
        return x.tensor.padded(0)[leading] if sampling.padding == "zeros" else x[leading]
    extent = x.shape[len(leading)]

    def at(index: Expr) -> Expr:
        return _sampled(x, sampling, (*leading, sampling.inside(index, extent)), places[1:])

    if sampling.mode == "nearest":
        return at(places[0].astype("int32"))
    before = te.floor(places[0])
    total: Expr | None = None
    for offset, weight in sampling.weights(places[0] - before):
        term = at(before.astype("int32") + IntImm(offset)).astype(weight.dtype) * weight
        total = term if total is None else total + term
    assert total is not None
    return total


def _lower_affine_grid(operation: Operation) -> list[te.Tensor]:
    """``theta @ (x, y, 1)`` of the coordinates of each element, or ``(x, y, z, 1)``."""
    theta, shape = operation.operand(0), operation.result.shape
    aligned, extents = operation.node.integer("align_corners", 0), shape[1:-1]
    depth = len(extents)
    if theta.shape != (*shape[:1], depth, depth + 1) or shape[-1] != depth:
        raise operation.node.damaged(f"theta of {list(theta.shape)} does not fit {list(shape)}")

    def coordinate(index: Expr, extent: int) -> Expr:
        number = index.astype(theta.dtype)
        if not aligned:
            return (number * 2 + 1) / extent - 1
        return number * (2 / max(extent - 1, 1)) - 1

    def element(*i: Expr) -> Expr:
        batch, row = i[0], i[-1]
        total = theta[batch, row, depth]
        # The last axis comes first.
        for number, (index, extent) in enumerate(zip(i[-2:0:-1], extents[::-1], strict=True)):
            total = total + theta[batch, row, number] * coordinate(index, extent)
        return total

    return [operation.compute(shape, element)]


LOWERINGS: Mapping[str, Lowering] = {"AffineGrid": _lower_affine_grid, "GridSample": _lower}
"""By operator."""
