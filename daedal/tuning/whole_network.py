"""`WholeNetwork`: a model on a variant, compiled with any configurations and counted as a whole.

Layers that run one after the other overlap, so what a layer gains alone is not what the network
gains. Input: an ONNX model. Output: its layers in blocked graphs, and the cycles of the network.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from daedal.artifact.artifact import Artifact
from daedal.common.errors import TuningError
from daedal.compiler.artifact.build import build_artifact
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.reader import Source, read_model, source_of
from daedal.compiler.frontend.tensor_types import tensor_names
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.layers.segment_store import default_store
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.model import check_widths
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import CompiledGraph, compile_graph
from daedal.isa.memory_file import AnyMemory, load_memory
from daedal.isa.profile import Profile
from daedal.isa.variant import Variant
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.layers import layer_cycles
from daedal.sim.timing.device import TimingDevice
from daedal.tuning.target import NetworkCycles

__all__ = ["WholeNetwork"]


class WholeNetwork:
    """The model `model` on `variant`, with the memory `memory`.

    Raises
    ------
    TuningError
        The memory has random delays, which the cycle model does not know.
    VariantError, ModelError, ScheduleError
        As `daedal.compile`.
    """

    def __init__(self, model: Source, variant: Variant, memory: AnyMemory = "ddr") -> None:
        self.memory = load_memory(memory)
        if self.memory.is_random:
            raise TuningError(
                "tuning needs a memory without random delays, not "
                f"{self.memory.name!r}; choose another one"
            )
        check_widths(variant)
        self._model = read_model(source_of(model))
        self.variant = variant

    @cached_property
    def layers(self) -> list[tuple[Graph, Node]]:
        """The layers on the accelerator in the order in which they run."""
        return [
            (launch.graph, node)
            for launch in self._default.launches
            for node in launch.graph.nodes
            if not get_op(node.op).is_view
        ]

    @cached_property
    def kinds(self) -> list[str]:
        """The key of each layer's workload."""
        return [workload_of(graph, node).key for graph, node in self.layers]

    @property
    def host_reasons(self) -> Mapping[str, str]:
        """Why the host computes some quantized tensors, by their names."""
        return self._default.reasons

    def artifact(self, configs: Mapping[str, Config]) -> Artifact:
        """The network with `configs`, by kinds; layers of other kinds have the default."""
        compiled = self._compile(configs) if configs else self._default
        return build_artifact(self._model, compiled)

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        """Its cycles on the cycle model."""
        artifact = self.artifact(configs)
        kinds: Counter[str] = Counter()
        num_layers = sum(len(launch.layers) for launch in artifact.launches)
        assert num_layers == len(self.kinds), "configurations move no layer to the host"
        names, profiles = iter(self.kinds), self._profiles(artifact)
        for launch, profile in zip(artifact.launches, profiles, strict=True):
            own = [next(names) for _ in launch.layers]
            for tag, cycles in layer_cycles(profile.marks).items():
                kinds[own[tag]] += cycles
        total = Profile.total(profiles).cycles
        assert total is not None, "the cycle model counts cycles"
        return NetworkCycles(total, kinds)

    def profile(self, configs: Mapping[str, Config]) -> Profile:
        """What the cycle model counts, of all launches together."""
        return Profile.total(self._profiles(self.artifact(configs)))

    def _profiles(self, artifact: Artifact) -> list[Profile]:
        """Of each launch."""
        device = TimingDevice(self.variant, timing=self.memory)
        loaded = [LoadedProgram.place(launch.program, device) for launch in artifact.launches]
        return [device.launch(item.program, item.bases) for item in loaded]

    @cached_property
    def _default(self) -> CompiledGraph:
        return self._compile({})

    def _compile(self, configs: Mapping[str, Config]) -> CompiledGraph:
        graph = load_onnx(self._model)
        names = tensor_names(self._model)
        store = default_store()
        return compile_graph(
            graph,
            self.variant,
            configs=configs,
            names=names,
            memory=self.memory,
            store=store,
        )
