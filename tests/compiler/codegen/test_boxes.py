"""Cutting boxes into pieces that LOAD can move: every row arrives once, pads where they belong."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.codegen.boxes import CopyDim, Piece, split_box


def _wanted(dims: list[CopyDim], chip_row: int, memory_beat: int) -> dict[int, int | None]:
    """Chip row -> its first beat in memory, None for a pad."""
    rows: dict[int, int | None] = {}
    for point in itertools.product(*(range(dim.total) for dim in dims)):
        chip = chip_row + sum(i * dim.chip_stride for i, dim in zip(point, dims, strict=True))
        inner = [i - dim.pad_low for i, dim in zip(point, dims, strict=True)]
        inside = all(0 <= i < dim.extent for i, dim in zip(inner, dims, strict=True))
        memory = sum(i * dim.memory_stride for i, dim in zip(inner, dims, strict=True))
        rows[chip] = memory_beat + memory if inside else None
    return rows


def _moved(pieces: list[Piece], row_beats: int) -> dict[int, int | None]:
    rows: dict[int, int | None] = {}
    for piece in pieces:
        top, bottom, left, right = piece.pads
        chip = piece.chip_row
        for block in range(piece.blocks):
            for r in range(-top, piece.rows + bottom):
                for c in range(-left, piece.cols + right):
                    inside = 0 <= r < piece.rows and 0 <= c < piece.cols
                    memory = piece.memory_beat + block * piece.block_stride + r * piece.row_stride
                    assert chip not in rows, "a row is written twice"
                    rows[chip] = memory + c * row_beats if inside else None
                    chip += 1
    return rows


dim_strategy = st.tuples(
    st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)
)


@given(st.lists(dim_strategy, min_size=1, max_size=5), st.sampled_from([2, 63]), st.integers(1, 3))
def test_pieces_move_exactly_the_box(shape, max_pad, row_beats):
    """Extents, pads on both sides, and gaps behind each dimension on chip and in memory."""
    dims: list[CopyDim] = []
    chip_stride, memory_stride = 1, row_beats
    for extent, low, high, chip_gap, memory_gap in reversed(shape):
        if extent + low + high == 0:
            extent = 1
        dim = CopyDim(extent, memory_stride, chip_stride, low, high)
        dims.insert(0, dim)
        chip_stride *= dim.total + chip_gap
        memory_stride *= max(1, dim.extent) + memory_gap
    pieces = list(split_box(dims, 7, 1000, row_beats, 1 << 24, max_pad))
    assert _moved(pieces, row_beats) == _wanted(dims, 7, 1000)
    assert all(max(piece.pads) <= max_pad for piece in pieces)


def test_a_padded_tile_of_several_channel_blocks_is_one_piece():
    dims = [CopyDim(3, 56 * 56, 16 * 58), CopyDim(15, 56, 58, 1, 0), CopyDim(56, 1, 1, 1, 1)]
    assert list(split_box(dims, 0, 0, 1, 1 << 24, 63)) == [
        Piece(0, 0, 3, 15, 56, 56, 3136, (1, 0, 1, 1))
    ]


def test_whole_rows_become_one_run():
    dims = [CopyDim(2, 100, 20), CopyDim(4, 5, 5), CopyDim(5, 1, 1)]
    assert list(split_box(dims, 0, 0, 1, 1 << 24, 63)) == [
        Piece(0, 0, 1, 2, 20, 100, 0, (0, 0, 0, 0))
    ]


def test_rows_that_overlap_in_memory_are_planes_of_runs():
    """Two beats to a row: every row, and again every row from its second beat on."""
    dims = [CopyDim(2, 1, 20), CopyDim(4, 50, 5), CopyDim(5, 2, 1)]
    assert list(split_box(dims, 0, 6, 2, 1 << 24, 63)) == [
        Piece(0, 6, 2, 4, 5, 50, 1, (0, 0, 0, 0))
    ]


def test_a_fifth_dimension_takes_more_pieces():
    dims = [CopyDim(2, 1000, 81), CopyDim(3, 100, 27), CopyDim(3, 20, 9), CopyDim(3, 5, 3)]
    dims.append(CopyDim(3, 1, 1))
    assert len(list(split_box(dims, 0, 0, 1, 1 << 24, 63))) == 6
