"""Linked programs as bytes: what is written is read again, and anything else is refused."""

import zlib
from unittest import mock

import numpy as np
import pytest

from daedal.common.errors import ArtifactError
from daedal.compiler.link import LinkedCode, linker
from daedal.compiler.link.linked_file import linked_from, linked_to_bytes
from daedal.isa.variant import load_variant
from tests.compiler.link.test_link import Network

TINY = load_variant("tiny")


def linked_code(seed: int) -> LinkedCode:
    """What `link` makes of a small network."""
    made: list[LinkedCode] = []
    original = linker.link_code

    def link_code(*arguments: object, **options: object) -> LinkedCode:
        made.append(original(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    with mock.patch.object(linker, "link_code", link_code):
        Network(TINY, seed).link()
    return made[0]


@pytest.fixture(scope="module")
def data() -> bytes:
    return linked_to_bytes(linked_code(3))


@pytest.mark.parametrize("seed", range(3))
def test_linked_code_is_read_as_it_was_written(seed: int) -> None:
    code = linked_code(seed)
    data = linked_to_bytes(code)
    again = linked_from(data)
    assert again == code and linked_to_bytes(again) == data
    assert [list(item.values) for item in again.instructions] == [
        list(item.values) for item in code.instructions
    ]


def test_anything_else_is_refused(data: bytes, rng: np.random.Generator) -> None:
    for length in range(0, len(data), max(1, len(data) // 50)):
        with pytest.raises(ArtifactError, match="must be"):
            linked_from(data[:length])
    for _ in range(50):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        try:
            again = linked_from(bytes(damaged))
        except ArtifactError:
            continue
        assert again == linked_from(data), "only bits that mean nothing"
    plain = zlib.decompress(data)
    for content in (b"", b"\0\0\0\0", b"\2\0\0\0{}", b"\2\0\0\0[]", plain[:-8], plain + bytes(8)):
        with pytest.raises(ArtifactError, match=r"damaged|must be as long"):
            linked_from(zlib.compress(content))
