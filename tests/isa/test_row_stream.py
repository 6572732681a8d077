"""Streams of pixels: packing by definition, and the way back from an element to its pixel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.program import Program
from daedal.isa.row_stream import RowStream
from daedal.isa.tensor import TensorSpec, pack_tensor, unpack_tensor
from daedal.isa.variant import load_variant

PAD = -77


@st.composite
def streams(draw: st.DrawFn) -> tuple[RowStream, tuple[int, int, int, int]]:
    """A stream that reaches at least to the end of its image, and the image's shape."""
    shape = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 9)),
    )
    group_rows = draw(st.integers(1, 3))
    channels = shape[1] + draw(st.integers(0, 2))
    left, lanes = draw(st.integers(0, 3)), draw(st.sampled_from([2, 8]))
    size = (left + shape[3]) * group_rows * channels
    stream = RowStream(
        batch=draw(st.integers(1, 2)),
        lanes=lanes,
        channels=channels,
        group_rows=group_rows,
        pad_top=draw(st.integers(0, group_rows - 1)),
        pad_left=left,
        num_rows=-(-size // lanes) + draw(st.integers(0, 2)),
        pad_value=PAD,
        copies=draw(st.sampled_from([1, 1, 2])),
        group_step=draw(st.integers(0, group_rows)),
    )
    return stream, shape


@given(streams())
def test_every_element_is_where_its_position_says(item):
    stream, shape = item
    values = np.arange(np.prod(shape)).reshape(shape)
    packed = stream.pack(values)
    assert packed.shape == stream.physical_shape(shape)
    seen = np.zeros(shape, dtype=int)
    for index, value in enumerate(packed.reshape(-1).tolist()):
        place = stream.element_at(index, shape)
        inside = all(0 <= at < size for at, size in zip(place, shape, strict=True))
        assert value == (values[place] if inside else PAD)
        first = index // packed[0].size * packed[0].size + _first(stream, shape) > index
        if inside and first:
            seen[place] += 1
    assert seen.min() > 0
    assert seen.max() <= -(-stream.group_rows // stream.rows_down)
    np.testing.assert_array_equal(stream.unpack(packed, shape), values)


def test_two_rows_of_an_image_lie_column_by_column():
    stream = RowStream(1, 4, 2, 2, 1, 1, 3, 0)
    image = np.array([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]])  # two channels of 2 x 2
    assert stream.pack(image).reshape(2, 12).tolist() == [
        [0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 2, 6],  # the padding above, then the first row
        [0, 0, 0, 0, 3, 7, 0, 0, 4, 8, 0, 0],  # the second row, and nothing below
    ]


def test_groups_may_have_rows_in_common():
    stream = RowStream(1, 3, 1, 3, 1, 0, 2, 9, group_step=2)
    image = np.array([[[[1, 2], [3, 4], [5, 6]]]])
    assert stream.pack(image).reshape(2, 6).tolist() == [
        [9, 1, 3, 9, 2, 4],  # the padding above, and two rows
        [3, 5, 9, 4, 6, 9],  # the second of them again
    ]


def test_columns_that_no_window_reaches_are_cut_off():
    stream = RowStream(1, 4, 1, 1, 0, 1, 1, 9)
    image = np.array([[[[1, 2, 3, 4, 5]]]])
    packed = stream.pack(image)
    assert packed.reshape(-1).tolist() == [9, 1, 2, 3]
    assert stream.unpack(packed, image.shape).reshape(-1).tolist() == [1, 2, 3, 9, 9]


def _first(stream: RowStream, shape: tuple[int, int, int, int]) -> int:
    """Elements of the first copy of a block."""
    return int(np.prod(stream.physical_shape(shape)[1:])) // stream.copies


def test_copies_begin_later():
    stream = RowStream(1, 4, 1, 1, 0, 1, 2, 9, copies=2)
    packed = stream.pack(np.array([[[[1, 2, 3, 4, 5]]]]))
    assert packed.reshape(2, 8).tolist() == [[9, 1, 2, 3, 4, 5, 9, 9], [2, 3, 4, 5, 9, 9, 9, 9]]


@pytest.mark.parametrize(
    "stream", [RowStream(1, 16, 3, 2, 1, 3, 4, 1, 2), RowStream(1, 16, 3, 3, 1, 3, 4, 1, 1, 2)]
)
def test_copies_are_read_back(stream):
    spec = TensorSpec("x", 1, 0, (1, 3, 7, 7), 8, 1, 16, stream)
    program = Program(
        load_variant("vta"), (), region_bytes=(0, spec.size_bytes, 0, 0), inputs=(spec,)
    )
    assert Program.from_bytes(program.to_bytes()).inputs == (spec,)


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_a_tensor_may_be_a_stream(bits, rng):
    stream = RowStream(1, 16, 3, 2, 1, 3, 4, 1)
    spec = TensorSpec("x", 1, 64, (1, 3, 7, 7), bits, 1, 16, stream)
    values = rng.integers(-8, 8, spec.shape)
    data = pack_tensor(spec, values)
    assert len(data) == spec.size_bytes == 4 * 4 * 16 * bits // 8
    np.testing.assert_array_equal(unpack_tensor(spec, data), values)
    regions = (0, 64 + spec.size_bytes, 0, 0)
    program = Program(load_variant("vta"), (), region_bytes=regions, inputs=(spec,))
    assert Program.from_bytes(program.to_bytes()).inputs == (spec,)
