"""`Artifact`: a compiled model in one file: programs, and the host's work between them.

The host's parts are ONNX models, so their meaning is ONNX's own; they may hold machine code of the
same meaning. An artifact for processors alone has one host part and no program. The file is a zip;
reading one checks sizes, format, hash and numbers, and never unpickles or evaluates anything.
"""

import dataclasses
import hashlib
import io
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daedal.artifact.parts import (
    Binding,
    Cost,
    Counterpart,
    HostNode,
    HostPart,
    Launch,
    Layer,
    Move,
    Part,
    Placement,
    Result,
    TargetPart,
    Value,
    part_from_json,
    part_json,
    part_member_names,
    part_members,
    placement_from_json,
    value_from_json,
)
from daedal.artifact.states import State, check_states, state_from_json
from daedal.common.errors import ArtifactError, ProgramError
from daedal.common.files import write_atomically
from daedal.common.inputs import read_input
from daedal.isa.memory_file import AnyMemory, load_memory, memory_from_json, memory_to_json
from daedal.isa.memory_model import PRESETS, MemoryModel, MemoryModelError
from daedal.isa.program import MAX_FILE_BYTES, READ_FAILURES, Program, member_sizes
from daedal.isa.variant import Variant

__all__ = [
    "Artifact",
    "Binding",
    "Cost",
    "Counterpart",
    "HostNode",
    "HostPart",
    "Launch",
    "Layer",
    "Move",
    "Placement",
    "Result",
    "State",
    "TargetPart",
    "Value",
]

FORMAT = "daedal artifact 16"
MAX_PARTS = 1000
_MANIFEST = "manifest.json"
_SAMPLES, _SAMPLE_BYTES, _LEAST_GAIN = 32, 1 << 14, 0.8
"""Pieces of a member that are compressed to see what it gains, their size, and the largest part
of its size that is left of a member that gains."""


@dataclass(frozen=True)
class Artifact:
    """A compiled model.

    Attributes
    ----------
    parts : executed one after the other: launches, and what the host does between them.
    inputs, outputs : of the model, or of the part of it that was compiled.
    placements : where each node of the model runs.
    states : inputs of the model that stay in the device's memory; they are not among `inputs`.
    memory : what its tiles are chosen for.
    """

    parts: tuple[Part, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    placements: tuple[Placement, ...] = ()
    states: tuple[State, ...] = ()
    memory: MemoryModel = PRESETS["ddr"]

    def __post_init__(self) -> None:
        launches = self.launches
        if not self.parts:
            raise ArtifactError("an artifact must hold at least one part; compile the model")
        for launch in launches[1:]:
            launch.program.check_variant(launches[0].program.variant, "the first program")
        check_states(self.states, tuple(launch.program for launch in launches))

    def __repr__(self) -> str:
        names = (", ".join(value.name for value in group) for group in (self.inputs, self.outputs))
        kinds = Counter(type(part).__name__ for part in self.parts)
        parts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"<Artifact {' -> '.join(names)}: {parts}>"

    @classmethod
    def of_launch(cls, launch: Launch) -> "Artifact":
        """An artifact of one program without host parts."""
        inputs, outputs = (
            tuple(Value(item.name, item.shape) for item in group)
            for group in (launch.inputs, launch.outputs)
        )
        return cls((launch,), inputs, outputs)

    def memory_or(self, given: AnyMemory | None, seed: int = 0) -> MemoryModel:
        """The memory `given`, or the artifact's own. Raises MemoryModelError, as `load_memory`."""
        if given is None:
            return dataclasses.replace(self.memory, seed=seed)
        return load_memory(given, seed)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The parts that the accelerator runs, in order."""
        return tuple(part for part in self.parts if isinstance(part, Launch))

    @property
    def host_parts(self) -> tuple[HostPart, ...]:
        """The parts that the host runs, in order."""
        return tuple(part for part in self.parts if isinstance(part, HostPart))

    @property
    def has_gpu_code(self) -> bool:
        """Whether a GPU can run a part of it."""
        return any(part.gpu is not None for part in self.host_parts)

    @property
    def repeated(self) -> "Artifact":
        """What a run costs that follows another: the same artifact, its programs without setup."""
        parts = (
            dataclasses.replace(part, program=part.program.repeated)
            if isinstance(part, Launch)
            else part
            for part in self.parts
        )
        return dataclasses.replace(self, parts=tuple(parts))

    @property
    def variant(self) -> Variant:
        """The variant of all its programs. Raises ArtifactError for an artifact without one."""
        if not self.launches:
            others = "GPUs" if self.has_gpu_code else "processors alone"
            raise ArtifactError(
                "this needs an artifact with a program for an accelerator, and this one is for "
                f"{others}; compile the model with --target VARIANT"
            )
        return self.launches[0].program.variant

    @property
    def program(self) -> Program:
        """The program of an artifact with one launch. Raises ArtifactError for any other."""
        launches = self.launches
        if len(launches) != 1:
            raise ArtifactError(
                f"this needs an artifact with one launch, not {len(launches)}; compile a part of "
                "the model with --from and --to, for a variant"
            )
        return launches[0].program

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of all launches; tags are unique within a launch only."""
        return tuple(layer for launch in self.launches for layer in launch.layers)

    @property
    def host_nodes(self) -> tuple[HostNode, ...]:
        """The steps of all host parts."""
        return tuple(node for part in self.host_parts for node in part.nodes)

    @property
    def host_quantized(self) -> frozenset[str]:
        """Quantized tensors of the model that the host or a GPU computes, and no layer."""
        return frozenset(
            item.output
            for item in self.placements
            if item.where in ("host", "gpu") and item.op == "QuantizeLinear" and not item.layer
        )

    def to_bytes(self) -> bytes:
        """The artifact as the bytes of its file; equal artifacts give equal bytes.

        Raises ArtifactError for one that is too large for a file.
        """
        contents = _named([part_members(part) for part in self.parts])
        parts = [part_json(part) for part in self.parts]
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "parts": parts,
            "inputs": [dataclasses.asdict(item) for item in self.inputs],
            "outputs": [dataclasses.asdict(item) for item in self.outputs],
            "placements": [dataclasses.asdict(item) for item in self.placements],
            "states": [dataclasses.asdict(item) for item in self.states],
            "memory": memory_to_json(self.memory),
        }
        manifest["sha256"] = _digest(manifest, contents.values())
        members = {_MANIFEST: json.dumps(manifest, indent=1).encode(), **contents}
        if sum(map(len, members.values())) > MAX_FILE_BYTES:
            raise ArtifactError(
                f"an artifact must have at most {MAX_FILE_BYTES} bytes, and this one has more; "
                "compile a smaller model, or for fewer levels with --cpu-level"
            )
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name), data, _method(data))
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "artifact") -> "Artifact":
        """Read what `to_bytes` wrote. Raises ArtifactError for anything else."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                manifest, contents = _read(archive, source)
            parts = [
                part_from_json(item, members, f"program {number} of {source}")
                for number, (item, members) in enumerate(
                    zip(manifest["parts"], contents, strict=True)
                )
            ]
            targets = {part.target for part in parts if isinstance(part, TargetPart)}
            return cls(
                parts=tuple(parts),
                inputs=tuple(value_from_json(item) for item in manifest["inputs"]),
                outputs=tuple(value_from_json(item) for item in manifest["outputs"]),
                placements=tuple(
                    placement_from_json(item, targets) for item in manifest["placements"]
                ),
                states=tuple(state_from_json(item) for item in manifest["states"]),
                memory=memory_from_json(manifest["memory"]),
            )
        except (*READ_FAILURES, ProgramError, MemoryModelError) as error:
            raise ArtifactError(
                f"{source} must be a file that `daedal compile` wrote; it is damaged or something "
                f"else ({type(error).__name__}); compile the model"
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the file atomically."""
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Artifact":
        """Read a file. Raises ArtifactError where it cannot be read."""
        data = read_input(path, "an artifact", MAX_FILE_BYTES, ArtifactError)
        return cls.from_bytes(data, source=repr(str(path)))


def _method(data: bytes) -> int:
    """How a member is written: as it is where compression hardly makes it smaller, as with weights,
    and takes seconds."""
    step = max(len(data) // _SAMPLES, _SAMPLE_BYTES)
    sample = b"".join(data[at : at + _SAMPLE_BYTES] for at in range(0, len(data), step))
    pays = len(zlib.compress(sample, 1)) < _LEAST_GAIN * len(sample)
    return zipfile.ZIP_DEFLATED if pays else zipfile.ZIP_STORED


def _digest(manifest: Mapping[str, Any], contents: Iterable[bytes]) -> str:
    """Hash of the manifest and of the parts, each preceded by its length, so that bytes cannot move
    unnoticed from one part to the next."""
    said = {name: item for name, item in manifest.items() if name != "sha256"}
    digest = hashlib.sha256()
    for content in (json.dumps(said, sort_keys=True).encode(), *contents):
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _named(parts: Sequence[Mapping[str, bytes]]) -> dict[str, bytes]:
    """Members of all parts by their names in the zip file."""
    return {
        f"part{number}.{end}": data
        for number, members in enumerate(parts)
        for end, data in members.items()
    }


def _read(archive: zipfile.ZipFile, source: str) -> tuple[dict[str, Any], list[dict[str, bytes]]]:
    """The manifest and the members of each part, with sizes, names, format and hash checked."""
    sizes = member_sizes(archive)
    if _MANIFEST not in sizes or sum(sizes.values()) > MAX_FILE_BYTES:
        raise ArtifactError(
            f"{source} must hold {_MANIFEST} and parts of at most {MAX_FILE_BYTES} bytes; "
            "compile the model again"
        )
    manifest = json.loads(archive.read(_MANIFEST))
    if manifest["format"] != FORMAT:
        raise ArtifactError(
            f"{source} must be of format {FORMAT!r}, not {str(manifest['format'])[:40]!r}; "
            "compile the model again"
        )
    if len(manifest["parts"]) > MAX_PARTS:
        raise ArtifactError(
            f"{source} must have at most {MAX_PARTS} parts; compile the model again"
        )
    ends = [part_member_names(item) for item in manifest["parts"]]
    names = [f"part{number}.{end}" for number, part in enumerate(ends) for end in part]
    if sorted(sizes) != sorted([_MANIFEST, *names]):
        raise ArtifactError(
            f"{source} must hold exactly the parts that its manifest lists; compile the model again"
        )
    contents = {name: archive.read(name) for name in names}
    if manifest["sha256"] != _digest(manifest, contents.values()):
        raise ArtifactError(f"{source} must match its hash; it is damaged, compile it again")
    return manifest, [
        {end: contents[f"part{number}.{end}"] for end in part} for number, part in enumerate(ends)
    ]
