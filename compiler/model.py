"""`compile_model`: an ONNX file in, an artifact out.

The middle is `pipeline.compile_graph`; this adds what surrounds the program: the host's part of the
model as ONNX, and the tensors where host and accelerator meet.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx

from daedal.compiler.frontend.host_model import extract_host_model
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.reader import read_model
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.compiler.graph.graph import Graph
from daedal.compiler.pipeline import CompiledGraph, compile_graph
from daedal.isa.artifact import Artifact, Binding, HostNode
from daedal.isa.errors import ModelError
from daedal.isa.variant import Variant

__all__ = ["compile_model"]

_HOST_LAYOUT = {"pack": "permute and pad", "unpack": "permute and crop"}
"""Steps of the host that the ONNX model does not know, as `daedal compile` lists them."""


def compile_model(
    model: str | Path | bytes,
    variant: Variant,
    *,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
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
    entries = [_before_pack(compiled.prologue, name) for name in compiled.accelerator.inputs]
    exits = [_after_unpack(compiled.epilogue, name) for name in compiled.accelerator.outputs]
    initialized = {tensor.name for tensor in model.graph.initializer}
    model_inputs = [item.name for item in model.graph.input if item.name not in initialized]
    prologue = b"" if from_tensors else extract_host_model(model, model_inputs, entries)
    model_outputs = [item.name for item in model.graph.output]
    epilogue = b"" if to_tensors else extract_host_model(model, exits, model_outputs)
    types = tensor_types(model)
    return Artifact(
        program=compiled.program,
        inputs=tuple(
            _binding(types, name, tensor)
            for name, tensor in zip(entries, compiled.accelerator.inputs, strict=True)
        ),
        outputs=tuple(
            _binding(types, name, tensor)
            for name, tensor in zip(exits, compiled.accelerator.outputs, strict=True)
        ),
        layers=compiled.layers,
        host_nodes=(
            *_host_nodes(compiled.prologue, "before"),
            *_host_nodes(compiled.epilogue, "after"),
        ),
        prologue=prologue,
        epilogue=epilogue,
    )


def _before_pack(prologue: Graph, name: str) -> str:
    """Name in the model of a tensor that enters the accelerator: what its packing reads."""
    node = prologue.producers.get(name)
    return node.inputs[0] if node is not None and node.op == "pack" else name


def _after_unpack(epilogue: Graph, name: str) -> str:
    """Name in the model of a tensor that leaves the accelerator. The blocked tensor bears it, but
    where it is an output of the graph: then its plain form does."""
    unpacked = [node.output for node in epilogue.users.get(name, ()) if node.op == "unpack"]
    return next((output for output in unpacked if output in epilogue.outputs), name)


def _host_nodes(graph: Graph, when: str) -> tuple[HostNode, ...]:
    return tuple(
        HostNode(_HOST_LAYOUT.get(node.op, node.op), node.name or node.output, when)
        for node in graph.nodes
    )


def _binding(types: dict[str, onnx.ValueInfoProto], name: str, tensor: str) -> Binding:
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
    )
