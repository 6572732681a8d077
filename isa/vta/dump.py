"""`VtaProgram`: an instruction stream with the memory it runs on, and dumps of it on disk.

A dump is a folder with `insn.bin`, one file per memory segment, and `segments.txt`, which has one
line per segment: role, physical address (hex), size, file with the contents before the run, file
with the contents after it (``-``: unchanged). Lines that start with ``#`` are comments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from daedal.common.errors import ProgramError
from daedal.common.inputs import read_input
from daedal.isa.vta.stream import VtaInstruction, VtaQueue, decode_stream

__all__ = ["VtaProgram", "VtaSegment"]

_MAX_FILE_BYTES = 1 << 30


@dataclass(frozen=True)
class VtaSegment:
    """Bytes at a physical address; `after` is their known contents after a run, if any."""

    role: str
    address: int
    data: bytes
    after: bytes | None = None

    @property
    def end(self) -> int:
        """First address past the segment."""
        return self.address + len(self.data)


@dataclass(frozen=True)
class VtaProgram:
    """Instructions in the order of the stream, and memory.

    `initial_tokens` counts the tokens that an earlier run left, by (giver, taker).
    """

    instructions: tuple[VtaInstruction, ...]
    segments: tuple[VtaSegment, ...]
    initial_tokens: Mapping[tuple[VtaQueue, VtaQueue], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ordered = sorted(self.segments, key=lambda segment: segment.address)
        for first, second in pairwise(ordered):
            if first.end > second.address:
                raise ProgramError(
                    f"memory segments must not overlap; {second.role!r} at {second.address:#x} "
                    f"begins inside {first.role!r}, which ends at {first.end:#x}"
                )

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        initial_tokens: Mapping[tuple[VtaQueue, VtaQueue], int] | None = None,
    ) -> "VtaProgram":
        """Read a dump. Raises ProgramError where it is incomplete or malformed."""
        root = Path(folder)
        segments = []
        for line in _read(root, "segments.txt").decode("utf-8", "replace").splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            segments.append(_segment(root, line))
        stream = decode_stream(_read(root, "insn.bin"))
        return cls(tuple(stream), tuple(segments), dict(initial_tokens or {}))


def _segment(root: Path, line: str) -> VtaSegment:
    words = line.split()
    try:
        role, address, size, before, after = words
        place, length = int(address, 16), int(size)
    except ValueError:
        raise ProgramError(
            f"a line of segments.txt must be 'role address size before after', not {line!r}"
        ) from None
    contents = []
    for name in (before, after):
        data = None if name == "-" else _read(root, name)
        if data is not None and len(data) != length:
            raise ProgramError(f"{name} must hold {length} bytes, not {len(data)}")
        contents.append(data)
    if contents[0] is None or place < 0:
        raise ProgramError(f"a segment needs an address and contents, unlike {line!r}")
    return VtaSegment(role, place, contents[0], contents[1])


def _read(root: Path, name: str) -> bytes:
    path = root / name
    if Path(name).name != name:
        raise ProgramError(f"a file of a VTA dump must lie in its folder, unlike {name!r}")
    return read_input(path, f"{name} of a VTA dump", _MAX_FILE_BYTES, ProgramError)
