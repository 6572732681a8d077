"""`Program`: the code and data of one launch, and its file format.

A program belongs to one variant (by fingerprint). Its memory is four regions, one per base address
register: constants (micro-ops, weights, parameters; part of the program), inputs, outputs and
workspace. The file is a zip of a JSON manifest, the instructions and the constants;
reading one checks sizes, versions and the hash, and never unpickles or evaluates anything.
"""

import dataclasses
import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from daedal.common.errors import ArtifactError, ProgramError
from daedal.common.fields import flag, text, whole, wholes
from daedal.common.files import write_atomically
from daedal.common.inputs import read_input
from daedal.isa.instruction import Instruction, decode_all, encode_all
from daedal.isa.row_stream import RowStream
from daedal.isa.table import BASES, Opcode, instruction_bytes
from daedal.isa.tensor import TensorSpec
from daedal.isa.transfer import transfer_end_bytes
from daedal.isa.variant import Variant

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_INSTRUCTIONS",
    "READ_FAILURES",
    "Program",
    "member_sizes",
    "tensor_specs",
]

FORMAT = "daedal program 5"
MAX_FILE_BYTES = 1 << 30
MAX_MEMORY_BYTES = 1 << 30
MAX_INSTRUCTIONS = 1 << 20
MAX_STEPS = 1 << 32
"""Limit on the rows that all instructions multiply or compute: minutes on a machine or simulator.
"""

_MAX_ELEMENT_BITS = 64
_MAX_LANES = 1 << 16
READ_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Exceptions that reading a damaged or foreign zip or manifest can raise."""
_MEMBERS = ("manifest.json", "instructions.bin", "constants.bin")


@dataclass(frozen=True)
class Program:
    """Instructions, constants, region sizes and the input and output tensors.

    `marks` names the tags of marked instructions (a layer each). `region_bytes` has one size per
    base address register, in the order of `isa.table.BASES`; the constants fill the first.

    The first `setup` instructions load what stays on chip: a launch that follows one of the same
    program leaves them out (`repeated`). They are LOADs without tokens, and no other instruction
    writes their rows.

    `unread` are the numbers of STOREs of results that nothing reads, and how many planes each of
    them would store. Here they store none; `observed` is the same program with all of them.
    """

    variant: Variant
    instructions: tuple[Instruction, ...]
    constants: bytes = b""
    region_bytes: tuple[int, int, int, int] = (0, 0, 0, 0)
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    marks: Mapping[int, str] = field(default_factory=dict)
    setup: int = 0
    unread: Mapping[int, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        names = (", ".join(item.name for item in group) for group in (self.inputs, self.outputs))
        return (
            f"<Program {' -> '.join(names)} for {self.variant.name}: {len(self.instructions):,} "
            f"instructions, {sum(self.region_bytes):,} bytes>"
        )

    def __post_init__(self) -> None:
        if len(self.constants) > self.region_bytes[0]:
            sizes = (len(self.constants), *self.region_bytes[1:])
            object.__setattr__(self, "region_bytes", sizes)

    @property
    def region_words(self) -> tuple[int, ...]:
        """Sizes of the regions in bus words: the limits for LOAD and STORE."""
        return tuple(-(-size // self.variant.bus_bytes) for size in self.region_bytes)

    @cached_property
    def repeated(self) -> "Program":
        """The program of a launch that follows one of this program: without its setup."""
        if not self.setup:
            return self
        unread = {number - self.setup: planes for number, planes in self.unread.items()}
        instructions = self.instructions[self.setup :]
        return dataclasses.replace(self, instructions=instructions, setup=0, unread=unread)

    @cached_property
    def observed(self) -> "Program":
        """The program with all STOREs, so that every layer's result can be read. What nothing
        reads may lie behind the workspace, which is larger here."""
        if not self.unread:
            return self
        instructions = list(self.instructions)
        constants, inputs, outputs, workspace = self.region_bytes
        for number, planes in self.unread.items():
            item = instructions[number] = instructions[number].replace(blocks=planes)
            if item.base == BASES.index("workspace"):
                workspace = max(workspace, transfer_end_bytes(self.variant, item))
        return dataclasses.replace(
            self,
            instructions=tuple(instructions),
            region_bytes=(constants, inputs, outputs, workspace),
            unread={},
        )

    @property
    def setup_alone(self) -> "Program":
        """A program that only loads what stays on chip."""
        instructions = (*self.instructions[: self.setup], Instruction.of(Opcode.FINISH))
        return dataclasses.replace(self, instructions=instructions, marks={}, setup=0, unread={})

    def encode(self) -> bytes:
        """The instruction stream as the machine fetches it."""
        return encode_all(self.variant, self.instructions)

    def to_bytes(self) -> bytes:
        """The program as the bytes of its file; equal programs give equal bytes."""
        code = self.encode()
        manifest = {
            "format": FORMAT,
            "variant": dataclasses.asdict(self.variant),
            "fingerprint": self.variant.fingerprint,
            "region_bytes": dict(zip(BASES, self.region_bytes, strict=True)),
            "inputs": [_spec_json(spec) for spec in self.inputs],
            "outputs": [_spec_json(spec) for spec in self.outputs],
            "marks": {str(tag): name for tag, name in sorted(self.marks.items())},
            "setup": self.setup,
            "unread": sorted(self.unread.items()),
            "sha256": hashlib.sha256(code + self.constants).hexdigest(),
        }
        head = json.dumps(manifest, indent=1).encode()
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in zip(_MEMBERS, (head, code, self.constants), strict=True):
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "program") -> "Program":
        """Read what `to_bytes` wrote. Raises ArtifactError for anything else."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                sizes = member_sizes(archive)
                if set(sizes) != set(_MEMBERS) or sum(sizes.values()) > MAX_FILE_BYTES:
                    raise ArtifactError(f"{source} must hold {', '.join(_MEMBERS)}")
                head, code, constants = (archive.read(name) for name in _MEMBERS)
            manifest = json.loads(head)
            if manifest["format"] != FORMAT:
                raise ArtifactError(
                    f"{source} must be of format {FORMAT!r}, not {str(manifest['format'])[:40]!r}"
                )
            if manifest["sha256"] != hashlib.sha256(code + constants).hexdigest():
                raise ArtifactError(
                    f"{source} must match its hash; it is damaged, compile it again"
                )
            variant = variant_from_json(manifest["variant"])
            if manifest["fingerprint"] != variant.fingerprint:
                raise ArtifactError(
                    f"{source} must carry the fingerprint of its variant; it was made by another "
                    "version of Daedal, compile it again"
                )
            program = cls(
                variant=variant,
                instructions=_instructions(variant, code),
                constants=constants,
                region_bytes=_regions(manifest["region_bytes"]),
                inputs=tensor_specs(manifest["inputs"]),
                outputs=tensor_specs(manifest["outputs"]),
                marks={int(tag): text(name) for tag, name in manifest["marks"].items()},
                setup=whole(manifest["setup"], 0, MAX_INSTRUCTIONS),
                unread=_pairs(manifest["unread"]),
            )
            program.check_bounds()
            return program
        except (*READ_FAILURES, ProgramError) as error:
            raise ArtifactError(
                f"{source} must be a file that Daedal wrote; it is damaged or something else "
                f"({type(error).__name__})"
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the file atomically."""
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Read a file. Raises ArtifactError where it cannot be read.

        Its instructions are decoded, not verified: `daedal.isa.verifier.verify` does that.
        """
        data = read_input(path, "a program", MAX_FILE_BYTES, ArtifactError)
        return cls.from_bytes(data, source=repr(str(path)))

    def check_bounds(self) -> None:
        """Raise ProgramError for a program that needs more memory or time than any machine has."""
        for spec in (*self.inputs, *self.outputs):
            end = spec.offset_bytes + spec.size_bytes
            if end > self.region_bytes[spec.base]:
                raise ProgramError(
                    f"tensors must lie within their region of {self.region_bytes[spec.base]} "
                    f"bytes, and {spec.name!r} ends at {end}; compile the model again"
                )
        for spec in self.inputs:
            if spec.pitch:
                raise ProgramError(
                    f"rows of an input must follow each other, and those of {spec.name!r} lie "
                    f"{spec.pitch} columns apart; compile the model again"
                )
        if not 0 <= self.setup <= len(self.instructions):
            raise ProgramError(
                f"the setup of a program must be some of its {len(self.instructions)} "
                f"instructions, not {self.setup}; compile the model again"
            )
        for number in self.unread:
            in_program = self.setup <= number < len(self.instructions)
            item = self.instructions[number] if in_program else None
            if item is None or item.opcode is not Opcode.STORE or item.blocks:
                raise ProgramError(
                    "what nothing reads must be STOREs of no planes behind the setup, and "
                    f"instruction {number} is none; compile the model again"
                )
        total = sum(self.observed.region_bytes)
        if total > MAX_MEMORY_BYTES:
            raise ProgramError(
                f"a program must use at most {MAX_MEMORY_BYTES} bytes of memory, not {total}; use "
                "a smaller network"
            )
        self._check_steps()

    @cached_property
    def steps(self) -> int:
        """Rows that all instructions multiply or compute."""
        return sum(item.steps for item in self.instructions)

    def _check_steps(self) -> None:
        if self.steps > MAX_STEPS:
            raise ProgramError(
                f"a program must take at most {MAX_STEPS} steps, not {self.steps}; use a smaller "
                "network"
            )

    @cached_property
    def _overwritten(self) -> int | None:
        """The first STORE that moves rows into the constants; None where there is none."""
        stores = (n for n, item in enumerate(self.instructions) if item.opcode is Opcode.STORE)
        for number in stores:
            item = self.instructions[number]
            if not item.base and item.blocks and item.rows and item.cols:
                return number
        return None

    def _check_constants(self) -> None:
        if self._overwritten is not None:
            raise ProgramError(
                f"a program must not write its constants, as instruction {self._overwritten} "
                "(STORE) does: they are written once for all its launches; store to outputs or "
                "workspace"
            )

    def check_launch(self, variant: Variant, device: str, bases: Sequence[int]) -> None:
        """Check what a device is asked to run, with its regions at the addresses `bases`.

        Raises ArtifactError unless it was made for `variant`. Raises ProgramError where it takes
        more steps than a run may (a machine that computes makes progress, so its watchdog never
        ends the run), or stores to its constants (the machine protects no region), or where a base
        address is none of a bus word (the machine drops the low bits), or a region leaves the
        address space (addresses would wrap).
        """
        self.check_variant(variant, device)
        self._check_steps()
        self._check_constants()
        end = 1 << variant.bus.address_bits
        for name, base, words in zip(BASES, bases, self.region_words, strict=True):
            if base % variant.bus_bytes:
                raise ProgramError(
                    f"{name} must begin at a multiple of {variant.bus_bytes} bytes, the bus word "
                    f"of variant {variant.name!r}, not at {base:#x}; allocate them on the device"
                )
            if not 0 <= base <= end - words * variant.bus_bytes:
                raise ProgramError(
                    f"{name} must lie below {end:#x}, which the {variant.bus.address_bits} address "
                    f"bits of variant {variant.name!r} reach, and end at "
                    f"{base + words * variant.bus_bytes:#x}; allocate them on the device"
                )

    def check_variant(self, variant: Variant, device: str) -> None:
        """Raise ArtifactError unless it was made for `variant`."""
        if self.variant.fingerprint != variant.fingerprint:
            raise ArtifactError(
                f"a program must run on the variant it was compiled for "
                f"({self.variant.name!r}, {self.variant.fingerprint}), not on {device} of "
                f"{variant.name!r} ({variant.fingerprint}); compile it for that variant"
            )


def member_sizes(archive: zipfile.ZipFile) -> dict[str, int]:
    """Size of each member. Raises BadZipFile for a compression method that Daedal never uses."""
    for item in archive.infolist():
        if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"compression of kind {item.compress_type}")
    return {item.filename: item.file_size for item in archive.infolist()}


def variant_from_json(data: Mapping[str, Any]) -> Variant:
    """Rebuild a variant from `dataclasses.asdict`, with all its checks."""
    lines = [f"name = {json.dumps(text(data['name']))}"]
    for section in ("array", "memory", "bus", "units"):
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in data[section].items()]
    return Variant.from_toml("\n".join(lines), source="the program's variant")


def _instructions(variant: Variant, code: bytes) -> tuple[Instruction, ...]:
    count = len(code) // instruction_bytes(variant)
    if count > MAX_INSTRUCTIONS:
        raise ProgramError(
            f"a program must have at most {MAX_INSTRUCTIONS} instructions, not {count}; use a "
            "smaller network"
        )
    return tuple(decode_all(variant, code))


def _regions(data: Mapping[str, Any]) -> tuple[int, int, int, int]:
    sizes = [whole(data[name], 0, MAX_MEMORY_BYTES) for name in BASES]
    return (sizes[0], sizes[1], sizes[2], sizes[3])


def _pairs(items: Sequence[Sequence[Any]]) -> dict[int, int]:
    found = {}
    for item in items:
        number, planes = wholes(item)
        found[number] = planes
    return found


def tensor_specs(items: Sequence[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    """Tensors from `dataclasses.asdict`. Raises one of `READ_FAILURES` for anything else."""
    result = []
    for item in items:
        n, c, h, w = wholes(item["shape"], 1, MAX_MEMORY_BYTES)
        numbers = {
            "base": whole(item["base"], 0, len(BASES) - 1),
            "offset_bytes": whole(item["offset_bytes"], 0, MAX_MEMORY_BYTES),
            "element_bits": whole(item["element_bits"], 1, _MAX_ELEMENT_BITS),
            "batch": whole(item["batch"], 1, _MAX_LANES),
            "block": whole(item["block"], 1, _MAX_LANES),
        }
        stream = None if item["stream"] is None else _stream(item["stream"], numbers)
        spec = TensorSpec(
            name=text(item["name"]),
            shape=(n, c, h, w),
            stream=stream,
            by_pixel=flag(item["by_pixel"]),
            pitch=whole(item.get("pitch", 0), 0, MAX_MEMORY_BYTES),
            **numbers,
        )
        if stream is not None and spec.by_pixel:
            raise ValueError("a stream must not be by pixel")
        if spec.pitch and (stream is not None or spec.by_pixel or spec.pitch <= w):
            raise ValueError("the rows of a map must not overlap")
        if spec.size_bytes > MAX_MEMORY_BYTES or spec.batch * spec.block * spec.element_bits % 8:
            raise ValueError("a tensor's size is out of range")
        result.append(spec)
    return tuple(result)


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    """The manifest entry of a tensor; `tensor_specs` reads it. A stream without copies or without
    overlapping groups, and a map whose rows follow each other, do not name them."""
    item = dataclasses.asdict(spec)
    if not spec.pitch:
        del item["pitch"]
    if spec.stream is not None:
        usual = {"copies": 1, "group_step": 0}
        stream = item["stream"]
        item["stream"] = {k: value for k, value in stream.items() if usual.get(k) != value}
    return item


def _stream(item: Mapping[str, Any], spec: Mapping[str, int]) -> RowStream:
    low = dict.fromkeys(("channels", "copies", "group_rows", "num_rows"), 1)
    low["pad_value"] = -MAX_MEMORY_BYTES
    stream = RowStream(
        **{key: whole(value, low.get(key, 0), MAX_MEMORY_BYTES) for key, value in item.items()}
    )
    if (stream.batch, stream.lanes) != (spec["batch"], spec["block"]):
        raise ValueError("a stream must have the batch and the lanes of its tensor")
    if stream.lanes % stream.copies:
        raise ValueError("copies of a stream must divide its lanes")
    if stream.group_step > stream.group_rows:
        raise ValueError("groups of a stream must have all rows of the image")
    return stream
