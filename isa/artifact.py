"""`Artifact`: a compiled model in one file: programs, and what the host does between them.

The host's parts are small ONNX models, so their meaning is ONNX's own. The file is a zip; reading
one checks sizes, format and hash, and never unpickles or evaluates anything.
"""

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daedal.isa.errors import ArtifactError, ProgramError
from daedal.isa.fields import flag, text, whole, wholes, word
from daedal.isa.files import write_atomically
from daedal.isa.program import MAX_FILE_BYTES, READ_FAILURES, Program, tensor_specs
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import Variant

__all__ = [
    "Artifact",
    "Binding",
    "HostNode",
    "HostPart",
    "Launch",
    "Layer",
    "Placement",
    "Result",
    "Value",
]

FORMAT = "daedal artifact 4"
MAX_PARTS = 1000
_MANIFEST = "manifest.json"
_SUFFIXES = {"host": ".onnx", "launch": ".daedal"}
PLACES = ("accelerator", "host", "folded")
"""Where a node of a model can run; a folded one has no work left."""


@dataclass(frozen=True)
class Value:
    """An input or output of the model."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Binding:
    """A tensor where host and accelerator meet: the model's `name` and `shape` of it.

    `tensor` is its name in the program. `flip_sign`: the model holds uint8, the program int8 that
    is 128 less. With an `order`, where the tensor comes from is reshaped to `view` and has its axes
    permuted before it gets the shape that it has where it goes.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    flip_sign: bool
    view: tuple[int, ...] = ()
    order: tuple[int, ...] = ()


@dataclass(frozen=True)
class HostNode:
    """A step that the host runs: operator and name."""

    op: str
    name: str


@dataclass(frozen=True)
class Result:
    """What a layer computes: where the program has it, until its bytes are used again, and what it
    is in the model."""

    spec: TensorSpec
    binding: Binding


@dataclass(frozen=True)
class Layer:
    """A fused layer of a program.

    Attributes
    ----------
    tag : of its marks.
    macs : multiply-accumulates, by logical shapes.
    output : its output tensor.
    bytes_once : what it would move if every byte of input rows it touches, of weights, parameters
        and outputs crossed the bus once.
    result : where its output lies; None where that is not known.
    """

    tag: int
    name: str
    op: str
    macs: int
    output: str
    bytes_once: int
    result: Result | None = None


@dataclass(frozen=True)
class Placement:
    """Where a node of the model runs, one of `PLACES`, and why not on the accelerator.

    Attributes
    ----------
    op : ONNX's operator.
    output : its first output.
    macs : its multiply-accumulates.
    part : number of the artifact's part that does its work; None for a folded one.
    layer : output of the layer that does it, on the accelerator.
    """

    node: str
    op: str
    output: str
    where: str
    why: str
    macs: int
    part: int | None = None
    layer: str = ""


@dataclass(frozen=True)
class HostPart:
    """A part of the model that the host runs: a serialized ONNX model, whose inputs and outputs
    are tensors of the model by their names; and its steps, layout changes included.

    Empty where all that the host does is to permute and pad."""

    model: bytes
    nodes: tuple[HostNode, ...] = ()


@dataclass(frozen=True)
class Launch:
    """A part of the model that the accelerator runs: one program, with one launch."""

    program: Program
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    layers: tuple[Layer, ...]


Part = HostPart | Launch


@dataclass(frozen=True)
class Artifact:
    """A compiled model.

    Attributes
    ----------
    parts : what runs, one after the other; at least one of them is a launch.
    inputs, outputs : of the model, or of the part of it that was compiled.
    placements : where each node of the model runs.
    """

    parts: tuple[Part, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    placements: tuple[Placement, ...] = ()

    def __post_init__(self) -> None:
        launches = self.launches
        if not launches:
            raise ArtifactError("an artifact must hold at least one program; compile the model")
        for launch in launches[1:]:
            launch.program.check_variant(launches[0].program.variant, "the first program")

    @classmethod
    def of_launch(cls, launch: Launch) -> "Artifact":
        """An artifact of one program that the host only feeds."""
        inputs, outputs = (
            tuple(Value(item.name, item.shape) for item in group)
            for group in (launch.inputs, launch.outputs)
        )
        return cls((launch,), inputs, outputs)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The parts that the accelerator runs, in order."""
        return tuple(part for part in self.parts if isinstance(part, Launch))

    @property
    def variant(self) -> Variant:
        """The variant of all its programs."""
        return self.launches[0].program.variant

    @property
    def program(self) -> Program:
        """The program of an artifact with one launch. Raises ArtifactError where there are more."""
        launches = self.launches
        if len(launches) > 1:
            raise ArtifactError(
                f"this needs an artifact with one launch, not {len(launches)}; compile a part of "
                "the model with --from and --to"
            )
        return launches[0].program

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of all launches; tags are unique within a launch only."""
        return tuple(layer for launch in self.launches for layer in launch.layers)

    @property
    def host_nodes(self) -> tuple[HostNode, ...]:
        """The steps of all host parts."""
        parts = (part for part in self.parts if isinstance(part, HostPart))
        return tuple(node for part in parts for node in part.nodes)

    @property
    def host_quantized(self) -> frozenset[str]:
        """Quantized tensors of the model that the host computes."""
        return frozenset(
            item.output
            for item in self.placements
            if item.where == "host" and item.op == "QuantizeLinear"
        )

    def to_bytes(self) -> bytes:
        """The artifact as the bytes of its file; equal artifacts give equal bytes."""
        contents = [_part_bytes(part) for part in self.parts]
        parts = [_part_json(part) for part in self.parts]
        manifest = {
            "format": FORMAT,
            "parts": parts,
            "inputs": [dataclasses.asdict(item) for item in self.inputs],
            "outputs": [dataclasses.asdict(item) for item in self.outputs],
            "placements": [dataclasses.asdict(item) for item in self.placements],
            "sha256": _digest(contents),
        }
        members = [(_MANIFEST, json.dumps(manifest, indent=1).encode())]
        members += zip(_member_names(parts), contents, strict=True)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in members:
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "artifact") -> "Artifact":
        """Read what `to_bytes` wrote. Raises ArtifactError for anything else."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                manifest, contents = _read(archive, source)
            parts = [
                _part(item, content, f"program {number} of {source}")
                for number, (item, content) in enumerate(
                    zip(manifest["parts"], contents, strict=True)
                )
            ]
            return cls(
                parts=tuple(parts),
                inputs=tuple(_value(item) for item in manifest["inputs"]),
                outputs=tuple(_value(item) for item in manifest["outputs"]),
                placements=tuple(_placement(item) for item in manifest["placements"]),
            )
        except (*READ_FAILURES, ProgramError) as error:
            raise ArtifactError(
                f"{source} must be a file that `daedal compile` wrote; it is damaged or something "
                f"else ({type(error).__name__})"
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the file; nothing is left half-written."""
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Artifact":
        """Read a file. Raises ArtifactError where it cannot be read."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ArtifactError(
                f"an artifact must be readable; {str(path)!r} is not: {error.strerror}"
            ) from error
        if len(data) > MAX_FILE_BYTES:
            raise ArtifactError(f"an artifact must be at most {MAX_FILE_BYTES} bytes")
        return cls.from_bytes(data, source=repr(str(path)))


def _digest(contents: Sequence[bytes]) -> str:
    """Hash of the parts, each with its length: bytes cannot wander from one to the next."""
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _member_names(parts: Sequence[dict[str, Any]]) -> list[str]:
    return [f"part{number}{_SUFFIXES[part['kind']]}" for number, part in enumerate(parts)]


def _read(archive: zipfile.ZipFile, source: str) -> tuple[dict[str, Any], list[bytes]]:
    """The manifest and the parts' bytes, after sizes, names, format and hash were checked."""
    sizes = {item.filename: item.file_size for item in archive.infolist()}
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
    names = _member_names(manifest["parts"])
    if len(names) > MAX_PARTS or sorted(sizes) != sorted([_MANIFEST, *names]):
        raise ArtifactError(
            f"{source} must hold exactly the parts that its manifest lists; compile the model again"
        )
    contents = [archive.read(name) for name in names]
    if manifest["sha256"] != _digest(contents):
        raise ArtifactError(f"{source} must match its hash; it is damaged, compile it again")
    return manifest, contents


def _part_bytes(part: Part) -> bytes:
    return part.program.to_bytes() if isinstance(part, Launch) else part.model


def _part_json(part: Part) -> dict[str, Any]:
    if isinstance(part, HostPart):
        return {"kind": "host", "nodes": [dataclasses.asdict(item) for item in part.nodes]}
    return {
        "kind": "launch",
        "inputs": [dataclasses.asdict(item) for item in part.inputs],
        "outputs": [dataclasses.asdict(item) for item in part.outputs],
        "layers": [dataclasses.asdict(item) for item in part.layers],
    }


def _part(item: dict[str, Any], content: bytes, source: str) -> Part:
    if item["kind"] == "host":
        nodes = tuple(HostNode(word(node["op"]), text(node["name"])) for node in item["nodes"])
        return HostPart(content, nodes)
    return Launch(
        program=Program.from_bytes(content, source=source),
        inputs=tuple(_binding(binding) for binding in item["inputs"]),
        outputs=tuple(_binding(binding) for binding in item["outputs"]),
        layers=tuple(_layer(layer) for layer in item["layers"]),
    )


def _value(item: dict[str, Any]) -> Value:
    return Value(text(item["name"]), wholes(item["shape"]))


def _binding(item: dict[str, Any]) -> Binding:
    return Binding(
        name=text(item["name"]),
        tensor=text(item["tensor"]),
        shape=wholes(item["shape"]),
        flip_sign=flag(item["flip_sign"]),
        view=wholes(item["view"]),
        order=wholes(item["order"]),
    )


def _layer(item: dict[str, Any]) -> Layer:
    return Layer(
        tag=whole(item["tag"]),
        name=text(item["name"]),
        op=word(item["op"]),
        macs=whole(item["macs"]),
        output=text(item["output"]),
        bytes_once=whole(item["bytes_once"]),
        result=None if item["result"] is None else _result(item["result"]),
    )


def _result(item: dict[str, Any]) -> Result:
    (spec,) = tensor_specs([item["spec"]])
    return Result(spec, _binding(item["binding"]))


def _placement(item: dict[str, Any]) -> Placement:
    where = text(item["where"])
    if where not in PLACES:
        raise ValueError(f"{where!r} is no place")
    return Placement(
        node=text(item["node"]),
        op=word(item["op"]),
        output=text(item["output"]),
        where=where,
        why=text(item["why"]),
        macs=whole(item["macs"]),
        part=None if item["part"] is None else whole(item["part"]),
        layer=text(item["layer"]),
    )
