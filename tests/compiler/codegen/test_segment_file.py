"""Segments as bytes: what is written is read again, and anything else is refused."""

import zlib

import numpy as np
import pytest

from daedal.common.errors import ArtifactError
from daedal.compiler.codegen.segment import Instance, Segment
from daedal.compiler.codegen.segment_file import segment_from, segment_to_bytes
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.link.ordering.order import by_need
from tests.support.tiled_operators import MICRO, NAMES, compiled_operator

pytestmark = pytest.mark.xdist_group("tiled-operators")


def segments(name: str) -> list[Segment]:
    builder = ProgramBuilder(MICRO)
    layers = compiled_operator(name, 0).layers
    return [builder.segment([layer.lowered], "layer") for layer in layers]


def plain(segment: Segment) -> object:
    """The segment with numbers in place of instances, which are compared by identity."""
    numbers: dict[Instance, int] = {}
    items = [
        (
            item.template.opcode,
            list(item.template.values.items()),
            [(numbers.setdefault(row.instance, len(numbers)), *row[1:]) for row in item.rows],
            item.tensor,
            item.uops,
        )
        for item in segment.instructions
    ]
    held = [(item.name, item.memory, item.rows, item.thread, item.copies) for item in numbers]
    return segment.name, list(segment.tensors.items()), held, items


@pytest.mark.parametrize("name", NAMES)
def test_a_segment_is_read_as_it_was_written(name: str) -> None:
    for segment in segments(name):
        again = segment_from(segment_to_bytes(segment))
        assert plain(again) == plain(segment)
        ordered = by_need(segment)
        again = segment_from(segment_to_bytes(ordered))
        assert plain(again) == plain(ordered) and again.is_by_need and not segment.is_by_need
        again = segment_from(segment_to_bytes(segment))
        assert segment_to_bytes(again) == segment_to_bytes(segment)


def test_no_segment_is_refused(rng: np.random.Generator) -> None:
    data = segment_to_bytes(segments("conv2d")[0])
    for length in range(0, len(data), max(1, len(data) // 50)):
        with pytest.raises(ArtifactError, match="must be"):
            segment_from(data[:length])
    for _ in range(50):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        try:
            again = segment_from(bytes(damaged))
        except ArtifactError:
            continue
        assert plain(again) == plain(segment_from(data)), "only bits that mean nothing"
    for content in (b"", b"\0\0\0\0", b"\2\0\0\0{}", b"\2\0\0\0[]", b"\xff\xff\xff\xff{}"):
        with pytest.raises(ArtifactError, match="damaged"):
            segment_from(zlib.compress(content))
