"""`Artifact`: a compiled model in one file: the program and what the host does around it.

The host's part is two small ONNX models (before the first and after the last accelerated
operator), so its meaning is ONNX's own; either may be empty. The file is a zip; reading one checks
sizes, format and hash, and never unpickles or evaluates anything.
"""

import dataclasses
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daedal.isa.errors import ArtifactError, ProgramError
from daedal.isa.files import write_atomically
from daedal.isa.program import MAX_FILE_BYTES, READ_FAILURES, Program

__all__ = ["Artifact", "Binding", "HostNode", "Layer"]

FORMAT = "daedal artifact 3"
_MEMBERS = ("manifest.json", "program.daedal", "prologue.onnx", "epilogue.onnx")


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
    """A step that the host runs: operator, name and when ("before" or "after" the launch)."""

    op: str
    name: str
    when: str


@dataclass(frozen=True)
class Layer:
    """A fused layer of the program.

    Attributes
    ----------
    tag : of its marks.
    macs : multiply-accumulates, by logical shapes.
    output : its output tensor.
    bytes_once : what it would move if every byte of input rows it touches, of weights, parameters
        and outputs crossed the bus once.
    """

    tag: int
    name: str
    op: str
    macs: int
    output: str
    bytes_once: int


@dataclass(frozen=True)
class Artifact:
    """A compiled model. `prologue` and `epilogue` are serialized ONNX models or empty."""

    program: Program
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    layers: tuple[Layer, ...]
    host_nodes: tuple[HostNode, ...] = ()
    prologue: bytes = b""
    epilogue: bytes = b""

    def to_bytes(self) -> bytes:
        """The artifact as the bytes of its file; equal artifacts give equal bytes."""
        program = self.program.to_bytes()
        manifest = {
            "format": FORMAT,
            "inputs": [dataclasses.asdict(item) for item in self.inputs],
            "outputs": [dataclasses.asdict(item) for item in self.outputs],
            "layers": [dataclasses.asdict(item) for item in self.layers],
            "host_nodes": [dataclasses.asdict(item) for item in self.host_nodes],
            "sha256": hashlib.sha256(program + self.prologue + self.epilogue).hexdigest(),
        }
        text = json.dumps(manifest, indent=1).encode()
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            contents = (text, program, self.prologue, self.epilogue)
            for name, data in zip(_MEMBERS, contents, strict=True):
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "artifact") -> "Artifact":
        """Read what `to_bytes` wrote. Raises ArtifactError for anything else."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                sizes = {item.filename: item.file_size for item in archive.infolist()}
                if set(sizes) != set(_MEMBERS) or sum(sizes.values()) > MAX_FILE_BYTES:
                    raise ArtifactError(f"{source} must hold {', '.join(_MEMBERS)}")
                text, program, prologue, epilogue = (archive.read(name) for name in _MEMBERS)
            manifest = json.loads(text)
            if manifest["format"] != FORMAT:
                raise ArtifactError(
                    f"{source} must be of format {FORMAT!r}, not {manifest['format']!r}"
                )
            digest = hashlib.sha256(program + prologue + epilogue).hexdigest()
            if manifest["sha256"] != digest:
                raise ArtifactError(
                    f"{source} must match its hash; it is damaged, compile it again"
                )
            return cls(
                program=Program.from_bytes(program, source=f"the program in {source}"),
                inputs=tuple(_binding(item) for item in manifest["inputs"]),
                outputs=tuple(_binding(item) for item in manifest["outputs"]),
                layers=tuple(Layer(**item) for item in manifest["layers"]),
                host_nodes=tuple(HostNode(**item) for item in manifest["host_nodes"]),
                prologue=prologue,
                epilogue=epilogue,
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


def _binding(item: dict[str, Any]) -> Binding:
    return Binding(
        name=str(item["name"]),
        tensor=str(item["tensor"]),
        shape=tuple(int(size) for size in item["shape"]),
        flip_sign=bool(item["flip_sign"]),
        view=tuple(int(size) for size in item["view"]),
        order=tuple(int(axis) for axis in item["order"]),
    )
