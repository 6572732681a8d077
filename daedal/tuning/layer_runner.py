"""`LayerRunner`: builds, runs and checks configurations of one layer.

Input: a node of a compiled graph. Output: cycles of the cycle model for each configuration, each
with its result compared, byte by byte, with the graph's interpreter.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from daedal.compiler.dump import Dump
from daedal.compiler.fallback import UnfitLayers
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.interpreter import run
from daedal.compiler.launch import CompiledLaunch, compile_launch
from daedal.compiler.layer_code import LayerCode
from daedal.compiler.link.constants import map_bytes
from daedal.compiler.program_builder import ProgramBuilder
from daedal.compiler.space import Config
from daedal.compiler.workload import workload_of
from daedal.isa.errors import DaedalError, TuningError
from daedal.isa.memory_model import PRESETS
from daedal.isa.profile import Profile
from daedal.isa.variant import Variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.timing.device import timing_with_values

__all__ = ["LayerRunner"]


class LayerRunner:
    """Measures configurations of the layer `node` of `graph`, which is in blocked layouts.

    The operands are random, the same ones for every configuration.
    """

    def __init__(self, graph: Graph, node: Node, variant: Variant, memory: str = "ddr") -> None:
        self.workload = workload_of(graph, node)
        self._graph = _alone(graph, node)
        self._variant = variant
        self._device = timing_with_values(variant, timing=PRESETS[memory])

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """Cycles of each configuration; None for one that cannot be built.

        Raises
        ------
        TuningError
            A configuration computes something else than the layer.
        """
        return [self.measure(config) for config in configs]

    def measure(self, config: Config) -> int | None:
        """Cycles of one configuration, as in `__call__`."""
        profile = self.profile(config)
        return None if profile is None else profile.cycles

    def profile(self, config: Config) -> Profile | None:
        """What the machine counted for one configuration; None and errors as in `__call__`."""
        try:
            launch = self._build(config)
        except (DaedalError, UnfitLayers):
            return None
        program = launch.program
        verify(program)
        loaded = LoadedProgram.place(program, self._device)
        for spec in program.inputs:
            data = map_bytes(self._variant, self._operands[spec.name])
            loaded.write_region(spec.base, data, spec.offset_bytes)
        profile = self._device.launch(program, loaded.bases)
        (spec,) = program.outputs
        found = self._device.read(loaded.bases[spec.base] + spec.offset_bytes, spec.size_bytes)
        if bytes(found) != self._expected:
            raise TuningError(
                f"every configuration must compute the layer {spec.name!r}, and this one gives "
                f"other bytes: {config}; report it as a bug of the compiler"
            )
        return profile

    def _build(self, config: Config) -> CompiledLaunch:
        builder = ProgramBuilder(self._variant, configs={self.workload.key: config})
        code = LayerCode(builder)
        return compile_launch(self._graph, builder, code, Dump(None), lambda _sentence: None)

    @cached_property
    def _operands(self) -> dict[str, Array]:
        """Random values of the layer's maps, in their layouts."""
        rng = np.random.default_rng(int(self.workload.key[:8], 16))
        limit = 1 << (self._variant.array.input_bits - 1)
        found = {}
        for name in self._graph.inputs:
            kind = self._graph.types[name]
            found[name] = kind.layout.pack(
                rng.integers(-limit, limit, kind.shape).astype(kind.dtype)
            )
        return found

    @cached_property
    def _expected(self) -> bytes:
        (result,) = run(self._graph, self._operands).values()
        return map_bytes(self._variant, result)


def _alone(graph: Graph, node: Node) -> Graph:
    """A graph of this node alone, with its constants."""
    builder = GraphBuilder(node.output)
    for name in dict.fromkeys(node.inputs):
        kind = graph.types[name]
        if graph.is_constant(name):
            builder.constant(name, graph.constant(name), kind)
        else:
            builder.input(name, kind)
    builder.add(node.op, node.inputs, dict(node.attrs), output=node.output, name=node.name)
    return builder.finish([node.output])
