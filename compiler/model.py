"""`compile_model`: an ONNX file in, an artifact out.

The middle is `pipeline.compile_graph`; this adds what surrounds the program: the host's part of the
model as ONNX, and the tensors where host and accelerator meet.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from daedal.compiler.frontend.host_model import extract_host_model
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.reader import read_model
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.pipeline import CompiledGraph, compile_graph
from daedal.isa.artifact import Artifact, Binding, HostNode
from daedal.isa.errors import ModelError
from daedal.isa.variant import Variant

__all__ = ["compile_model"]

_HOST_LAYOUT = {
    "pack": "permute and pad",
    "pack_stream": "permute and pad",
    "unpack": "permute and crop",
}
"""Steps of the host that the ONNX model does not know, as `daedal compile` lists them."""

_VIEWS = ("pack", "pack_stream", "unpack", "reshape", "flip_sign")
"""Operators that give the same values in another form: the driver does them."""


def compile_model(
    model: str | Path | bytes,
    variant: Variant,
    *,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    fuse: bool = True,
    dump_dir: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> Artifact:
    """Compile an int8 QDQ model, or the part of it between quantized tensors.

    Raises ModelError and ScheduleError as `daedal.compile` says.
    """
    say = report or (lambda _sentence: None)
    say("reading the model")
    checked = read_model(model if isinstance(model, bytes) else Path(model))
    graph = load_onnx(checked.SerializeToString())
    compiled = compile_graph(
        graph,
        variant,
        from_tensors=from_tensors,
        to_tensors=to_tensors,
        fuse=fuse,
        dump_dir=dump_dir,
        report=report,
    )
    return _artifact(checked, compiled, from_tensors, to_tensors)


def _artifact(
    model: onnx.ModelProto,
    compiled: CompiledGraph,
    from_tensors: Sequence[str],
    to_tensors: Sequence[str],
) -> Artifact:
    """Cut the host's parts out of `model`; a part that the user cut away is empty."""
    types = tensor_types(model)
    accelerator = compiled.accelerator
    entries = [_entry(types, compiled.prologue, name) for name in accelerator.inputs]
    exits = [_exit(types, compiled.epilogue, name) for name in accelerator.outputs]
    initialized = {tensor.name for tensor in model.graph.initializer}
    model_inputs = [item.name for item in model.graph.input if item.name not in initialized]
    prologue = (
        b""
        if from_tensors
        else extract_host_model(model, model_inputs, [way.name for way in entries])
    )
    model_outputs = [item.name for item in model.graph.output]
    epilogue = (
        b"" if to_tensors else extract_host_model(model, [way.name for way in exits], model_outputs)
    )
    return Artifact(
        program=compiled.program,
        inputs=tuple(
            _binding(types, way, tensor)
            for way, tensor in zip(entries, accelerator.inputs, strict=True)
        ),
        outputs=tuple(
            _binding(types, way, tensor)
            for way, tensor in zip(exits, accelerator.outputs, strict=True)
        ),
        layers=tuple(
            replace(layer, output=_exit(types, compiled.epilogue, layer.output).name)
            for layer in compiled.layers
        ),
        host_nodes=(
            *_host_nodes(compiled.prologue, "before"),
            *_host_nodes(compiled.epilogue, "after"),
        ),
        prologue=prologue,
        epilogue=epilogue,
    )


@dataclass(frozen=True)
class _Way:
    """From a tensor of the model to one of the program, or back: the model's name, and the shape
    and order of a transpose between them."""

    name: str
    view: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    def through(self, graph: Graph, node: Node, name: str) -> "_Way":
        """The way that also leads through `node`, to `name`."""
        if node.op != "transpose":
            return replace(self, name=name)
        order = ints(node.attrs, "order")
        return _Way(name, graph.types[node.inputs[0]].shape, order)

    def leads_through(self, node: Node) -> bool:
        """Whether the host's view `node` can be a part of it: the driver permutes axes once."""
        return node.op in _VIEWS or (node.op == "transpose" and not self.order)


def _entry(types: Collection[str], prologue: Graph, name: str) -> _Way:
    """Where a tensor that enters the accelerator comes from: what its packing reads."""
    way = _Way(name)
    while way.name not in types:
        node = prologue.producers.get(way.name)
        if node is None or not way.leads_through(node):
            break
        way = way.through(prologue, node, node.inputs[0])
    return way


def _exit(types: Collection[str], epilogue: Graph, name: str) -> _Way:
    """Where a tensor that leaves the accelerator goes. The blocked tensor bears the model's name,
    but where it is an output of the graph: then its plain form does."""
    way = _Way(name)
    while way.name not in types:
        views = [node for node in epilogue.users.get(way.name, ()) if way.leads_through(node)]
        if not views:
            return _Way(name)
        way = way.through(epilogue, views[0], views[0].output)
    return way


def _host_nodes(graph: Graph, when: str) -> tuple[HostNode, ...]:
    return tuple(
        HostNode(_HOST_LAYOUT.get(node.op, node.op), node.name or node.output, when)
        for node in graph.nodes
    )


def _binding(types: dict[str, onnx.ValueInfoProto], way: _Way, tensor: str) -> Binding:
    name = way.name
    if name not in types:
        raise ModelError(
            f"a tensor where host and accelerator meet must be one of the model's, not {name!r}; "
            "compile up to a quantized tensor with --to"
        )
    kind = types[name].type.tensor_type
    return Binding(
        name=name,
        tensor=tensor,
        shape=tuple(int(dim.dim_value) for dim in kind.shape.dim),
        flip_sign=kind.elem_type == onnx.TensorProto.UINT8,
        view=way.view,
        order=way.order,
    )
