"""Mutations of a file's bytes, whatever the format."""

from collections.abc import Callable

import numpy as np

from tests.robustness.nasty import pick

__all__ = ["BYTE_MUTATIONS", "ByteMutation", "change_bytes"]

Rng = np.random.Generator
ByteMutation = Callable[[Rng, bytes], bytes]

_NOT_UTF8 = b"\xff\xfe\xc3\x28"


def change_bytes(rng: Rng, data: bytes) -> bytes:
    """One to eight bytes, at random."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


def truncate(rng: Rng, data: bytes) -> bytes:
    return data[: int(rng.integers(len(data)))]


def delete_part(rng: Rng, data: bytes) -> bytes:
    begin = int(rng.integers(len(data)))
    return data[:begin] + data[begin + int(rng.integers(1, 64)) :]


def repeat_part(rng: Rng, data: bytes) -> bytes:
    begin, target = (int(item) for item in rng.integers(len(data), size=2))
    return data[:target] + data[begin : begin + int(rng.integers(1, 200))] + data[target:]


def insert_noise(rng: Rng, data: bytes) -> bytes:
    begin = int(rng.integers(len(data) + 1))
    return data[:begin] + rng.bytes(int(rng.integers(1, 32))) + data[begin:]


def append_noise(rng: Rng, data: bytes) -> bytes:
    return data + pick(rng, (rng.bytes(100), bytes(1000), data))


def replace_all(rng: Rng, data: bytes) -> bytes:
    return bytes(pick(rng, (b"", b"\0", rng.bytes(len(data)), b"not a model\n", b"PK\x03\x04")))


def break_text(rng: Rng, data: bytes) -> bytes:
    """Four bytes that are no UTF-8, where the file has letters."""
    letters = np.frombuffer(data, np.uint8)
    places = np.flatnonzero((letters >= ord("a")) & (letters <= ord("z")))
    begin = int(pick(rng, places)) if len(places) else 0
    return data[:begin] + _NOT_UTF8 + data[begin + len(_NOT_UTF8) :]


def nest_messages(rng: Rng, data: bytes) -> bytes:
    """Appends a graph in an attribute of a node in a graph, and so on, far beyond any limit.

    Source: onnx.proto: ModelProto.graph = 7, GraphProto.node = 1, NodeProto.attribute = 5,
    AttributeProto.g = 6.
    """
    graph = b""
    for _ in range(int(pick(rng, (20, 40, 1_000)))):
        graph = _field(1, _field(5, _field(6, graph)))
    return data + _field(7, graph)


def _field(number: int, message: bytes) -> bytes:
    """A message in a field of another.

    Source: Protocol Buffers, encoding: wire type 2, its length as a varint.
    """
    size, length = len(message), b""
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + message


BYTE_MUTATIONS: tuple[ByteMutation, ...] = (
    change_bytes,
    truncate,
    delete_part,
    repeat_part,
    insert_noise,
    append_noise,
    replace_all,
    break_text,
    nest_messages,
)
