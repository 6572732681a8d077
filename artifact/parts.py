"""Contents of an artifact: its parts, the tensors between them, and where each node runs.

Each kind has a form in the file's manifest; everything read from there is checked. The code of a
target that the kit does not have is bytes here, and only what runs it knows what they mean.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daedal.artifact.code import (
    codes_from_json,
    codes_json,
    codes_member_names,
    codes_members,
)
from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.gpu_code_file import (
    gpu_from_json,
    gpu_json,
    gpu_member_names,
    gpu_members,
)
from daedal.artifact.host_code import HostCode
from daedal.artifact.marks import check_marks
from daedal.common.fields import flag, text, whole, wholes, word
from daedal.isa.program import Program, tensor_specs
from daedal.isa.tensor import Box, TensorSpec
from daedal.isa.verified_programs import check_verified

__all__ = [
    "COST_KINDS",
    "PLACES",
    "Binding",
    "Cost",
    "HostNode",
    "HostPart",
    "Launch",
    "Layer",
    "Move",
    "Part",
    "Placement",
    "Result",
    "TargetPart",
    "Value",
    "part_from_json",
    "part_json",
    "part_member_names",
    "part_members",
    "placement_from_json",
    "value_from_json",
]

_SHOWN_NODES = 4

PLACES = ("accelerator", "host", "folded", "gpu")
"""Where a node of a model can run, besides the targets of `TargetPart`s; a folded node needs no
work at run time."""


@dataclass(frozen=True)
class Value:
    """An input or output of the model."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Move:
    """A change of the elements' order: reshape to `shape`, then permute the axes: axis i of the
    result is axis ``order[i]``. With `box`, of each axis of the result only the indices from the
    first to before the second are kept."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    box: Box = ()


@dataclass(frozen=True)
class Binding:
    """A tensor that is passed between host and accelerator.

    Attributes
    ----------
    name, shape : of the model's tensor. A tensor that exists only between launches has its name in
        the program that computes it.
    tensor : its name in the program.
    flip_sign : whether the model has uint8, and the program int8 values that are 128 less.
    wide : whether the model has int16, and the program 32 bits.
    moves : reorderings applied in turn when the tensor is passed in or out; then it is reshaped to
        its shape on that side.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    flip_sign: bool
    wide: bool = False
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class HostNode:
    """A node that the host runs: operator and name."""

    op: str
    name: str


@dataclass(frozen=True)
class Counterpart:
    """The tensor with which a result is compared that the model does not have.

    Attributes
    ----------
    name : of the tensor, in the model's integer graph.
    moves : from the result to this tensor, or to a part of it.
    box : this part; () for all of it.
    """

    name: str
    moves: tuple[Move, ...]
    box: Box = ()


@dataclass(frozen=True)
class Result:
    """The result of a layer: its place in the program, valid until its bytes are reused, and its
    tensor in the model. Where the model has no such tensor, it is compared with `counterpart`."""

    spec: TensorSpec
    binding: Binding
    counterpart: Counterpart | None = None


COST_KINDS = ("depthwise", "groups", "image", "lanes", "moves", "weights")
"""Why a layer is slow by construction: depthwise products; groups narrower than a block; images of
few channels; channels that do not fill blocks; a layer that only moves elements; weights that do
not fit into int8."""


@dataclass(frozen=True)
class Cost:
    """Why a layer takes longer than its roofline whatever its schedule.

    Attributes
    ----------
    kind : one of `COST_KINDS`.
    cycles : about how many it costs, by shapes alone.
    text : the figures behind it, as a part of a sentence.
    """

    kind: str
    cycles: int
    text: str


@dataclass(frozen=True)
class Layer:
    """A fused layer of a program.

    Attributes
    ----------
    tag : of its marks.
    macs : multiply-accumulates, by logical shapes.
    output : its output tensor.
    bytes_once : bytes it would move if every byte of the input rows it touches, of weights,
        parameters and outputs crossed the bus once.
    result : where its output is stored; None if unknown.
    padding_macs : how many of `macs` multiply padding; the accelerator may skip them.
    costs : what makes it slow by construction.
    """

    tag: int
    name: str
    op: str
    macs: int
    output: str
    bytes_once: int
    result: Result | None = None
    padding_macs: int = 0
    costs: tuple[Cost, ...] = ()

    @property
    def needed_macs(self) -> int:
        """Multiply-accumulates, not counting those with padding."""
        return self.macs - self.padding_macs


@dataclass(frozen=True)
class Placement:
    """Where a node of the model runs: one of `PLACES`, or the target of a `TargetPart`; and why not
    on the accelerator.

    Attributes
    ----------
    op : ONNX's operator.
    output : its first output.
    macs : its multiply-accumulates; None if unknown.
    part : number of the artifact's part that does its work; None for a folded one.
    layer : output of the layer that does it, on the accelerator; also where the host does it, too.
    """

    node: str
    op: str
    output: str
    where: str
    why: str
    macs: int | None
    part: int | None = None
    layer: str = ""


@dataclass(frozen=True)
class HostPart:
    """A part of the model that the host runs, or a GPU.

    Attributes
    ----------
    model : a serialized ONNX model, whose inputs and outputs have the names of the model's tensors:
        the part's meaning. Empty if the host only permutes and pads.
    nodes : its nodes, layout changes included.
    codes : the same compiled for processors, each for other levels; without any, the model is
        interpreted.
    gpu : the same compiled for GPUs. Where none is at hand, the host runs the part.
    """

    model: bytes
    nodes: tuple[HostNode, ...] = ()
    codes: tuple[HostCode, ...] = ()
    gpu: GpuCode | None = None

    def __repr__(self) -> str:
        codes = ", ".join(map(repr, self.codes)) or "interpreted"
        return f"<HostPart {_operators(self.nodes)}: {codes}>"

    @property
    def objects(self) -> dict[str, tuple[bytes, ...]]:
        """The object code of all levels."""
        return {level: files for code in self.codes for level, files in code.objects.items()}


@dataclass(frozen=True)
class Launch:
    """A part of the model that the accelerator runs: one program, with one launch."""

    program: Program
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    layers: tuple[Layer, ...]

    def __repr__(self) -> str:
        return f"<Launch of {len(self.layers)} layers: {self.program}>"


@dataclass(frozen=True)
class TargetPart:
    """A part of the model that another target runs: one that `daedal.add_target` made known.

    Attributes
    ----------
    target : its name.
    inputs, outputs : names of the model's tensors.
    nodes : the nodes of the model that it computes.
    code : for what runs it; its form is the target's own.
    """

    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[HostNode, ...]
    code: bytes

    def __repr__(self) -> str:
        return f"<TargetPart {self.target} {_operators(self.nodes)}: {len(self.code):,} bytes>"


def _operators(nodes: Sequence[HostNode]) -> str:
    """The operators of the first nodes, for a `repr`."""
    shown = [node.op for node in nodes[:_SHOWN_NODES]]
    return " ".join([*shown, "..."] if len(nodes) > len(shown) else shown)


Part = HostPart | Launch | TargetPart


_MODEL, _PROGRAM, _CODE = "onnx", "daedal", "code"


def part_members(part: Part) -> dict[str, bytes]:
    """The part's content as members of the zip file, by the ends of their names."""
    if isinstance(part, Launch):
        return {_PROGRAM: part.program.to_bytes()}
    if isinstance(part, TargetPart):
        return {_CODE: part.code}
    return {
        _MODEL: part.model,
        **(codes_members(part.codes) if part.codes else {}),
        **({} if part.gpu is None else gpu_members(part.gpu)),
    }


def part_member_names(item: Mapping[str, Any]) -> list[str]:
    """Ends of the names of a part's members, by its manifest entry, in the order of
    `part_members`. Raises as `part_from_json`."""
    if item["kind"] == "launch":
        return [_PROGRAM]
    if item["kind"] == "target":
        return [_CODE]
    if item["kind"] != "host":
        raise ValueError("a part must be of the host, a launch, or of another target")
    return [
        _MODEL,
        *([] if item["code"] is None else codes_member_names(item["code"])),
        *([] if item["gpu"] is None else gpu_member_names(item["gpu"])),
    ]


def part_json(part: Part) -> dict[str, Any]:
    """The manifest entry of a part."""
    if isinstance(part, HostPart):
        return {
            "kind": "host",
            "nodes": [dataclasses.asdict(item) for item in part.nodes],
            "code": codes_json(part.codes) if part.codes else None,
            "gpu": None if part.gpu is None else gpu_json(part.gpu),
        }
    if isinstance(part, TargetPart):
        return {
            "kind": "target",
            "target": part.target,
            "inputs": list(part.inputs),
            "outputs": list(part.outputs),
            "nodes": [dataclasses.asdict(item) for item in part.nodes],
        }
    return {
        "kind": "launch",
        "inputs": [dataclasses.asdict(item) for item in part.inputs],
        "outputs": [dataclasses.asdict(item) for item in part.outputs],
        "layers": [dataclasses.asdict(item) for item in part.layers],
    }


def part_from_json(item: dict[str, Any], members: Mapping[str, bytes], source: str) -> Part:
    """A part from the manifest and its members; `source` names the program in errors.

    Raises what `daedal.isa.program.READ_FAILURES` lists, ArtifactError and ProgramError.
    """
    if item["kind"] == "host":
        codes = () if item["code"] is None else codes_from_json(item["code"], members)
        gpu = None if item["gpu"] is None else gpu_from_json(item["gpu"], members)
        return HostPart(members[_MODEL], _nodes(item), codes, gpu)
    if item["kind"] == "target":
        inputs, outputs = (tuple(map(text, item[end])) for end in ("inputs", "outputs"))
        return TargetPart(word(item["target"]), inputs, outputs, _nodes(item), members[_CODE])
    program = Program.from_bytes(members[_PROGRAM], source=source)
    layers = tuple(_layer(layer) for layer in item["layers"])
    check_marks(program, [layer.tag for layer in layers], source)
    check_verified(program, members[_PROGRAM], source)
    return Launch(
        program=program,
        inputs=tuple(_binding(binding) for binding in item["inputs"]),
        outputs=tuple(_binding(binding) for binding in item["outputs"]),
        layers=layers,
    )


def value_from_json(item: dict[str, Any]) -> Value:
    """An input or output from the manifest; raises as `part_from_json`."""
    return Value(text(item["name"]), wholes(item["shape"]))


def _nodes(item: dict[str, Any]) -> tuple[HostNode, ...]:
    return tuple(HostNode(word(node["op"]), text(node["name"])) for node in item["nodes"])


def _binding(item: dict[str, Any]) -> Binding:
    return Binding(
        name=text(item["name"]),
        tensor=text(item["tensor"]),
        shape=wholes(item["shape"]),
        flip_sign=flag(item["flip_sign"]),
        wide=flag(item["wide"]),
        moves=_moves(item["moves"]),
    )


def _moves(items: list[dict[str, Any]]) -> tuple[Move, ...]:
    return tuple(
        Move(wholes(item["shape"]), wholes(item["order"]), _box(item["box"])) for item in items
    )


def _box(items: list[list[int]]) -> Box:
    axes = [wholes(axis) for axis in items]
    if any(len(axis) != 2 for axis in axes):
        raise ValueError(f"{items!r} is no box of a tensor")
    return tuple((axis[0], axis[1]) for axis in axes)


def _layer(item: dict[str, Any]) -> Layer:
    return Layer(
        tag=whole(item["tag"]),
        name=text(item["name"]),
        op=word(item["op"]),
        macs=whole(item["macs"]),
        output=text(item["output"]),
        bytes_once=whole(item["bytes_once"]),
        result=None if item["result"] is None else _result(item["result"]),
        padding_macs=whole(item["padding_macs"]),
        costs=tuple(_cost(cost) for cost in item["costs"]),
    )


def _cost(item: dict[str, Any]) -> Cost:
    kind = text(item["kind"])
    if kind not in COST_KINDS:
        raise ValueError(f"{kind!r} is no kind of cost")
    return Cost(kind, whole(item["cycles"]), text(item["text"]))


def _result(item: dict[str, Any]) -> Result:
    (spec,) = tensor_specs([item["spec"]])
    known = item["counterpart"]
    counterpart = None if known is None else _counterpart(known)
    return Result(spec, _binding(item["binding"]), counterpart)


def _counterpart(item: dict[str, Any]) -> Counterpart:
    return Counterpart(text(item["name"]), _moves(item["moves"]), _box(item["box"]))


def placement_from_json(item: dict[str, Any], targets: Collection[str] = ()) -> Placement:
    """A placement from the manifest of an artifact whose parts are of these other `targets`, too;
    raises as `part_from_json`."""
    where = text(item["where"])
    if where not in PLACES and where not in targets:
        raise ValueError(f"{where!r} is no place")
    return Placement(
        node=text(item["node"]),
        op=word(item["op"]),
        output=text(item["output"]),
        where=where,
        why=text(item["why"]),
        macs=None if item["macs"] is None else whole(item["macs"]),
        part=None if item["part"] is None else whole(item["part"]),
        layer=text(item["layer"]),
    )
