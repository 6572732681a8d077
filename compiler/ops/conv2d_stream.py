"""Two-dimensional integer convolution over few channels: a vector holds several taps.

The map is held as streams (`daedal.isa.row_stream`), the weights as in
`daedal.compiler.graph.stream_layout`.
"""

from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.graph.stream_layout import RowStreamWeightLayout
from daedal.compiler.ops.requantize import Bounds, requantized
from daedal.isa.row_stream import RowStream

__all__ = ["StreamWindow", "conv2d_stream"]


@dataclass(frozen=True)
class StreamWindow:
    """The movement of a window over streams.

    Parameters
    ----------
    step : elements of the stream from one window to the next.
    beat : elements per beat; a vector begins at a multiple of it. It divides the lanes.
    groups_down : groups of rows from one window to the one below.
    pad_groups : groups of padding above the first one.
    extent : windows in a column, and in a row.
    vectors : in each phase, the vectors of a group that have elements of a window; the weights of
        others are 0.
    """

    step: int
    beat: int
    groups_down: int
    pad_groups: int
    extent: tuple[int, int]
    vectors: tuple[int, ...]

    @classmethod
    def of(
        cls,
        stream: RowStream,
        weights: RowStreamWeightLayout,
        *,
        down: int,
        pad_top: int,
        extent: tuple[int, int],
    ) -> "StreamWindow":
        """Of a convolution with these layouts of map and weights, `down` rows from one window to
        the one below, and `pad_top` rows of padding."""
        return cls(
            step=weights.step,
            beat=weights.beat,
            groups_down=down // stream.rows_down,
            pad_groups=(pad_top - stream.pad_top) // stream.rows_down,
            extent=extent,
            vectors=weights.vectors_by_phase,
        )


def conv2d_stream(
    x: te.Tensor,
    w: te.Tensor,
    params: te.Tensor,
    *,
    window: StreamWindow,
    parts: int,
    pad_value: int,
    bounds: Bounds,
    accumulator: str = "int32",
    name: str = "y",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """Convolution and requantization, as tensor `name`.

    Parameters
    ----------
    x : (NB, planes, groups, rows, batch, lanes); plane p holds the streams starting at beat p, so
        that every vector that begins at a beat is a row of one plane.
    w : (OB, phases, KG, vectors, block_out, lanes); 0 from vector ``window.vectors[phase]`` on.
    params : (OB, block_out, 3) int64: bias, multiplier, shift of each output channel.
    parts : output vectors to a block of channels.
    pad_value : the value of groups outside x.

    Returns
    -------
    (NB, OB / parts, OH, OW, parts, batch, block_out); the accumulators before it are ``acc``.
    """
    nb, planes, _, _, batch, lanes = x.shape
    ob, phases, groups, vectors, block_out, _ = w.shape
    oh, ow = window.extent
    g, j = te.reduce_axis(groups, "g"), te.reduce_axis(vectors, "j")
    i = te.reduce_axis(lanes, "i")
    source = x.padded(pad_value)
    acc = te.compute(
        (nb, ob // parts, oh, ow, parts, batch, block_out),
        lambda n, oc, h, v, u, b, o: te.sum(
            source[
                n,
                v * window.step // window.beat % planes,
                h * window.groups_down + g - window.pad_groups,
                v * window.step // lanes + j,
                b,
                i,
            ].astype(accumulator)
            * w[oc * parts + u, v % phases, g, j, o, i].astype(accumulator),
            [g, j, i],
        ),
        "acc",
    )
    return requantized(acc, params, bounds, bounds.dtype(x.dtype), name=name, table=table)
