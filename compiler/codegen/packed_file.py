"""A JSON head and the bytes after it in one compressed file: the form of segments and of linked
programs on disk. Reading it executes nothing."""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from daedal.common.errors import ArtifactError

__all__ = ["damage_refused", "packed", "unpacked"]

_MAX_BYTES = 1 << 30
"""Of an uncompressed file."""

_SIZE = struct.Struct("<I")


def packed(head: Mapping[str, Any], body: bytes) -> bytes:
    """The bytes of a file; `unpacked` reads them."""
    text = json.dumps(head).encode()
    return zlib.compress(_SIZE.pack(len(text)) + text + body, 1)


def unpacked(data: bytes, what: str) -> tuple[dict[str, Any], bytes]:
    """Head and body of a file, which is `what`. Errors are those that `damage_refused` catches."""
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(data, _MAX_BYTES)
    if not unpacker.eof:
        raise ArtifactError(f"{what}'s file must be whole, and this one ends too early")
    begin = _SIZE.size + _SIZE.unpack_from(plain)[0]
    head: dict[str, Any] = json.loads(plain[_SIZE.size : begin])
    return head, plain[begin:]


@contextmanager
def damage_refused(what: str) -> Iterator[None]:
    """Turn every error of reading a damaged file of `what` into an ArtifactError."""
    try:
        yield
    except (
        zlib.error,
        struct.error,
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        StopIteration,
        TypeError,
        ValueError,
    ) as error:
        raise ArtifactError(
            f"{what} must be in a file that Daedal wrote; this one is damaged "
            f"({type(error).__name__})"
        ) from error
