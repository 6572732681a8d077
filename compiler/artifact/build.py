"""`build_artifact`: builds an artifact from the compiled parts of a graph and the model."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import onnx

from daedal.artifact.artifact import (
    Artifact,
    Binding,
    HostNode,
    HostPart,
    Launch,
    Layer,
    Result,
    State,
    TargetPart,
    Value,
)
from daedal.artifact.gpu_code import GpuCode
from daedal.artifact.host_code import HostCode
from daedal.artifact.parts import Part
from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.artifact.bindings import Bindings
from daedal.compiler.artifact.costs import weight_cost
from daedal.compiler.artifact.gpu_code import compile_gpu_model
from daedal.compiler.artifact.host_code import compile_host_model
from daedal.compiler.artifact.host_parts import HostParts, HostTask
from daedal.compiler.artifact.placements import place_nodes
from daedal.compiler.artifact.reasons import HostReasons
from daedal.compiler.frontend.cut import ModelCutter, is_static
from daedal.compiler.frontend.host_model import host_model
from daedal.compiler.frontend.tensor_types import tensor_names, tensor_types
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.append import Q_APPEND
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.passes.lowering.quantized_weights import find_weights, weight_axis
from daedal.compiler.graph.passes.partition import Part as GraphPart
from daedal.compiler.graph.passes.simplify.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.states import BoundState
from daedal.compiler.layers.launch import CompiledLaunch
from daedal.compiler.pipeline import CompiledGraph
from daedal.compiler.targets.names import CPU, GPU
from daedal.isa.tensor import TensorSpec
from daedal.native.cache import ObjectCache

__all__ = ["build_artifact"]

_HOST_LAYOUT = {
    "pack": "permute and pad",
    "pack_pixels": "permute and pad",
    "pack_stream": "permute and pad",
    "unpack": "permute and crop",
}
"""Steps of the host that the ONNX model does not know, as `daedal compile` lists them."""


def build_artifact(
    model: onnx.ModelProto,
    compiled: CompiledGraph,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    cpu_levels: Sequence[str] = (),
    report: Callable[[str], None] | None = None,
    objects: ObjectCache | None = None,
    states: Sequence[BoundState] = (),
    gpus: Sequence[str] | None = None,
) -> Artifact:
    """The artifact of `model`, or of its part between tensors.

    The host's parts are compiled for `cpu_levels` of processors, and interpreted without any.
    Those of a GPU are compiled for the architectures `gpus`, too, where they have code for them.
    Object code is kept in `objects`, by default in the user's cache.

    Raises ModelError for a host part that cannot be cut out of the model.
    """

    def compile_part(
        model: bytes, graph: Graph, target: str
    ) -> tuple[tuple[HostCode, ...], GpuCode | None]:
        codes = compile_host_model(model, cpu_levels, report, objects, graph)
        if gpus is None or target != GPU:
            return codes, None
        return codes, _gpu_code(model, gpus, cpu_levels, report, objects)

    return _Build(model, compiled, from_tensors, to_tensors, states).artifact(compile_part)


CompilePart = Callable[[bytes, Graph, str], tuple[tuple[HostCode, ...], GpuCode | None]]
"""The code of a part, given as ONNX, as a graph and with its target, for processors and GPUs."""


def _gpu_code(
    model: bytes,
    gpus: Sequence[str],
    levels: Sequence[str],
    report: Callable[[str], None] | None,
    objects: ObjectCache | None,
) -> GpuCode | None:
    """A host's part for GPUs; None where it has no code for them."""
    try:
        return compile_gpu_model(
            model, gpus, objects, levels=levels, cubins=bool(gpus), report=report
        )
    except UnsupportedError as error:
        if report is not None:
            report(f"a part stays with the host: {error}")
        return None


class _Build:
    def __init__(
        self,
        model: onnx.ModelProto,
        compiled: CompiledGraph,
        from_tensors: Sequence[str],
        to_tensors: Sequence[str],
        states: Sequence[BoundState] = (),
    ) -> None:
        self._graph = compiled.graph
        self._compiled = compiled
        self._types = _static_types(model, compiled.imported)
        self._model = model
        self._cutter = ModelCutter(model, self._types)
        self._kept = {item.tensor for item in states}
        kept = {item.name for item in states}
        inputs = [name for name in self._cutter.inputs if name not in kept]
        self._starts = list(from_tensors) or inputs
        new = {item.new for item in states}
        outputs = [name for name in self._cutter.outputs if name not in new]
        self._ends = list(to_tensors) or outputs
        self._bindings = Bindings(
            self._graph,
            compiled.lowered,
            compiled.same,
            compiled.imported,
            tensor_names(model),
            self._starts,
        )
        self._states = states
        self._launches = [self._launch(part) for part in compiled.launches]
        self._tasks = self._host_tasks()
        self._host = HostParts(compiled.imported, self._tasks)

    def artifact(self, compile_part: CompilePart) -> Artifact:
        launches, numbers = iter(self._launches), iter(range(len(self._tasks)))
        parts = list[Part]()
        for item in self._compiled.parts:
            if isinstance(item.code, bytes):
                parts.append(self._target_part(item.part, item.code))
            elif item.code is not None:
                parts.append(next(launches))
            else:
                nodes = _host_nodes(item.part.graph)
                target = item.part.target
                parts.append(self._host_part(next(numbers), nodes, compile_part, target))
        parts += [self._host_part(number, (), compile_part, CPU) for number in numbers]
        launched = self._launched(parts)
        return Artifact(
            parts=tuple(self._with_weight_costs(part) for part in parts),
            inputs=tuple(self._value(name) for name in self._starts),
            outputs=tuple(self._value(name) for name in self._ends),
            placements=place_nodes(
                self._cutter,
                parts,
                launched,
                self._on_host(parts, launched),
                self._why_host(),
            ),
            states=tuple(self._state_of(item) for item in self._states),
        )

    def _host_part(
        self,
        index: int,
        nodes: tuple[HostNode, ...],
        compile_part: CompilePart,
        target: str,
    ) -> HostPart:
        """A part of the host or a GPU; without a model where it has nothing to compute."""
        outputs = self._host.outputs(index)
        if not outputs:
            return HostPart(b"", nodes)
        graph = self._host.graph(index)
        made = host_model(graph, outputs, self._model, self._types)
        serialized = bytes(made.SerializeToString(deterministic=True))
        return HostPart(serialized, nodes, *compile_part(serialized, graph, target))

    def _target_part(self, part: GraphPart, code: bytes) -> TargetPart:
        """A part of a target that the kit does not have. It has the model's tensors as they are."""
        graph = part.graph
        for name in (*graph.inputs, *graph.outputs):
            if name not in self._cutter.producers and name not in self._cutter.inputs:
                raise ModelError(
                    f"a part of target {part.target!r} must exchange tensors of the model, and "
                    f"{name!r} is none; let the target leave the node that computes it to others"
                )
        return TargetPart(part.target, graph.inputs, graph.outputs, _host_nodes(graph), code)

    def _state_of(self, bound: BoundState) -> State:
        """Where a launch has a state."""
        for part in self._compiled.launches:
            for node in part.graph.nodes:
                if node.op == Q_APPEND.name and self._bindings.name(node.inputs[0]) == bound.tensor:
                    axis, begin = (whole(node.attrs, name) for name in ("axis", "begin"))
                    tensor = node.inputs[0]
                    return State(bound.name, bound.new, tensor, axis, bound.rows, begin)
        raise AssertionError(f"no launch has {bound.tensor!r}")

    def _with_weight_costs(self, part: Part) -> Part:
        """The part with the costs of weights that do not fit into int8."""
        if not isinstance(part, Launch):
            return part
        layers = []
        stored = {binding.name for binding in part.inputs} | {x.output for x in part.layers}
        for layer in part.layers:
            macs = self._macs_of_wide_weights(layer.output, stored)
            cost = weight_cost(layer.macs, macs, part.program.variant)
            layers.append(layer if cost is None else replace(layer, costs=(*layer.costs, cost)))
        return replace(part, layers=tuple(layers))

    def _macs_of_wide_weights(self, output: str, stored: Collection[str]) -> int:
        """Multiply-accumulates of the model's layer behind its tensor `output`, back to other
        tensors that are `stored`, if its weights do not fit into int8; else 0."""
        graph = self._compiled.imported
        stack, seen = [output], set[str]()
        while stack:
            name = stack.pop()
            node = graph.producers.get(name)
            if node is None or name in seen or (name in stored and name != output):
                continue
            seen.add(name)
            if node.op in ("conv2d", "dense"):
                try:
                    values = find_weights(graph, node, weight_axis(node), wide=True).values
                except UnsupportedError:
                    continue
                pixels = graph.types[node.output].num_elements // len(values)
                return 0 if values.dtype == np.int8 else pixels * values.size
            quantizes = node.op in ("quantize", "dequantize")
            stack.extend(node.inputs[:1] if quantizes else node.inputs)
        return 0

    def _why_host(self) -> Callable[[onnx.NodeProto], str]:
        """Why a node is not on the accelerator, and not on a GPU that there is."""
        reasons, others = self._reasons(), self._compiled.not_on_gpu

        def why(node: onnx.NodeProto) -> str:
            first = next((others[name] for name in node.output if name in others), "")
            return f"{reasons.of(node)}; {first}" if first else reasons.of(node)

        return why

    def _reasons(self) -> HostReasons:
        launches = self._launches
        bound = (item for part in launches for item in (*part.inputs, *part.outputs))
        return HostReasons(
            self._cutter,
            self._compiled.imported,
            self._graph,
            {item.name for item in bound},
            self._compiled.reasons,
            launches[0].program.variant,
        )

    def _launch(self, part: CompiledLaunch) -> Launch:
        graph = part.graph
        return Launch(
            program=part.program,
            inputs=tuple(
                self._bindings.entering(graph, name)
                for name in graph.inputs
                if self._bindings.name(name) not in self._kept
            ),
            outputs=tuple(self._bindings.leaving(graph, name) for name in graph.outputs),
            layers=tuple(
                self._layer(part, layer, spec)
                for layer, spec in zip(part.layers, part.results, strict=True)
            ),
        )

    def _layer(self, part: CompiledLaunch, layer: Layer, spec: TensorSpec) -> Layer:
        binding = self._bindings.leaving(part.graph, layer.output)
        counterpart = self._bindings.counterpart(layer.output)
        return replace(layer, output=binding.name, result=Result(spec, binding, counterpart))

    def _host_tasks(self) -> list[HostTask]:
        """One task for each part of the host or a GPU. The last part of all computes the outputs; a
        part is added where that is a launch."""
        known = set(self._starts)
        tasks: list[HostTask] = []
        launches = iter(self._launches)
        last = self._compiled.parts[-1]
        for item in self._compiled.parts:
            if item.launch is not None:
                known |= {binding.name for binding in next(launches).outputs}
            elif item.code is not None:
                known |= set(item.part.graph.outputs)
            elif item is not last:
                tasks.append(HostTask(frozenset(known), self._wanted(item.part)))
        return [*tasks, HostTask(frozenset(known), tuple(self._ends))]

    def _wanted(self, part: GraphPart) -> tuple[str, ...]:
        """The results of a part that other targets read; what only host parts read is computed by
        the first that needs it. Where there is a GPU, outputs are computed where they belong."""
        names = [
            self._bindings.name(name)
            for item in self._compiled.parts
            if item.part.target != part.target and part.name in item.part.needs
            for name in (item.launch or item.part).graph.inputs
            if name in part.graph.outputs
        ]
        if any(item.part.target == GPU for item in self._compiled.parts):
            own = [self._bindings.name(name) for name in part.graph.outputs]
            names += [name for name in own if name in self._ends]
        names = [name for name in names if name not in self._kept]
        return tuple(dict.fromkeys(names))

    def _launched(self, parts: Sequence[Part]) -> dict[int, tuple[int, str]]:
        """Part and layer of each node that the host does not compute, by the node's number in the
        model."""
        found: dict[int, tuple[int, str]] = {}
        left: set[str] = {*self._starts, *(name for name in self._cutter.inputs)}
        for number, part in enumerate(parts):
            if isinstance(part, HostPart):
                continue
            known, ends, steps = left | self._in_model(part.inputs), _names(part.outputs), []
            if isinstance(part, Launch):
                steps = [(self._tensor_of(layer), layer.output) for layer in part.layers]
            steps += [(name, "") for name in ends]
            for name, layer in steps:
                if name in self._cutter.producers:
                    for node in self._cutter.needed(known, [name]):
                        found.setdefault(node, (number, layer))
                    known.add(name)
            left |= self._in_model(part.outputs)
        return found

    def _in_model(self, exchanged: Sequence[Binding | str]) -> set[str]:
        """What a part exchanges, and for tensors that the model does not have, those of which they
        have elements."""
        found: set[str] = set()
        for name in _names(exchanged):
            found.add(name)
            if name not in self._cutter.producers:
                found.update(self._compiled.same.wholes(name))
        return found

    def _tensor_of(self, layer: Layer) -> str:
        """The model's tensor that a layer computes."""
        return layer.output if layer.output in self._cutter.producers else layer.name

    def _on_host(self, parts: Sequence[Part], launched: Collection[int]) -> dict[int, int]:
        """The first host part that runs each node, by the node's number in the model.

        A node of the graph may be needed and not run: others read only its shape. Some transposes
        are in no host part: the driver does them while it packs and unpacks.
        """
        found: dict[int, int] = {}
        places = [number for number, part in enumerate(parts) if isinstance(part, HostPart)]
        run = eliminate_dead_code(self._compiled.imported)
        others = run.producers.keys() - self._host.computed
        for place, task in zip(places, self._tasks, strict=True):
            for node in self._cutter.needed(task.known, task.wanted):
                if node not in launched or others.isdisjoint(self._cutter.nodes[node].output):
                    found.setdefault(node, place)
        # A pass may name a transpose of its own after any node of the model.
        names = {
            node.name: number
            for number, node in enumerate(self._cutter.nodes)
            if node.name and node.op_type == "Transpose"
        }
        for place, part in zip(places, self._compiled.host_parts, strict=False):
            for step in part.nodes:
                if step.op == "transpose" and step.name in names:
                    found.setdefault(names[step.name], place)
        return found

    def _value(self, name: str) -> Value:
        value = self._types.get(name)
        dims = value.type.tensor_type.shape.dim if value is not None else ()
        return Value(name, tuple(int(dim.dim_value) for dim in dims))


def _names(exchanged: Sequence[Binding | str]) -> list[str]:
    """The model's names of what a part exchanges."""
    return [item if isinstance(item, str) else item.name for item in exchanged]


def _static_types(model: onnx.ModelProto, imported: Graph) -> dict[str, onnx.ValueInfoProto]:
    """Types of the model's tensors; shapes unknown to ONNX's inference come from the graph."""
    types = tensor_types(model)
    for name, kind in imported.types.items():
        found = types.get(name)
        if found is None or not is_static(found.type.tensor_type):
            dtype = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype))
            types[name] = onnx.helper.make_tensor_value_info(name, dtype, kind.shape)
    return types


def _host_nodes(part: Graph) -> tuple[HostNode, ...]:
    return tuple(
        HostNode(_HOST_LAYOUT.get(node.op, node.op), node.name or node.output)
        for node in part.nodes
    )
