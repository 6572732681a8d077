"""`LayerTask`: a layer to be measured, as plain data: it travels to other processes and machines.

It has the layer's graph, the variant, the memory and the device. The operands are random;
they and the expected bytes follow from the seed.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from daedal.common.errors import DaedalError, TuningError
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.ops.integer import element_bits, is_wide
from daedal.compiler.graph.portable import graph_from_json, graph_to_json
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.link.constants import map_bytes
from daedal.compiler.tune.workload import Workload
from daedal.isa.memory_file import AnyMemory, load_memory, memory_from_json, memory_to_json
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.program import variant_from_json
from daedal.isa.variant import Variant
from daedal.tuning.runner import digest_of

__all__ = ["CYCLE_MODEL", "RTL", "LayerTask"]

CYCLE_MODEL = "timing"
"""The device that counts the cycles of the RTL in milliseconds."""
RTL = "rtl"


@dataclass(frozen=True)
class LayerTask:
    """The layer of `graph`, which has one node, in blocked layouts.

    Parameters
    ----------
    memory : behind the machine's bus.
    device : name of the device that runs it.
    seed : of the operands.
    """

    graph: Graph
    variant: Variant
    memory: MemoryModel = PRESETS["ddr"]
    device: str = CYCLE_MODEL
    seed: int = 0

    def __post_init__(self) -> None:
        if self.device not in (CYCLE_MODEL, RTL):
            raise TuningError(
                f"layers are measured on {CYCLE_MODEL} or {RTL}, not on {self.device!r:.80}"
            )

    @classmethod
    def of(
        cls,
        graph: Graph,
        node: Node,
        variant: Variant,
        memory: AnyMemory = "ddr",
        device: str = CYCLE_MODEL,
    ) -> "LayerTask":
        """The task of the layer `node` of `graph`."""
        alone = _alone(graph, node)
        seed = int(workload_of(graph, node).key[:8], 16)
        return cls(alone, variant, load_memory(memory), device, seed)

    @cached_property
    def workload(self) -> Workload:
        """The kind of layer."""
        (node,) = self.graph.nodes
        return workload_of(self.graph, node)

    @cached_property
    def operands(self) -> dict[str, Array]:
        """Random values of the layer's maps, in their layouts."""
        rng = np.random.default_rng(self.seed)
        found = {}
        for name in self.graph.inputs:
            kind = self.graph.types[name]
            limit = 1 << (15 if is_wide(kind) else self.variant.array.input_bits - 1)
            found[name] = kind.layout.pack(
                rng.integers(-limit, limit, kind.shape).astype(kind.dtype)
            )
        return found

    @cached_property
    def expected(self) -> bytes:
        """What the layer must store, by the graph's interpreter."""
        (result,) = run(self.graph, self.operands).values()
        (output,) = self.graph.outputs
        return self.bytes_of(output, result)

    def bytes_of(self, name: str, values: Array) -> bytes:
        """A map of the layer in memory."""
        return map_bytes(values, element_bits(self.graph.types[name], self.variant))

    @cached_property
    def expected_digest(self) -> str:
        """Digest of `expected`."""
        return digest_of(self.expected)

    @cached_property
    def key(self) -> str:
        """SHA-256 of `to_bytes`, in hexadecimal digits."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The task as JSON text; equal tasks give equal bytes."""
        data = {
            "graph": graph_to_json(self.graph),
            "variant": dataclasses.asdict(self.variant),
            "memory": memory_to_json(self.memory),
            "device": self.device,
            "seed": self.seed,
        }
        return json.dumps(data, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "LayerTask":
        """The task that `to_bytes` wrote.

        Raises
        ------
        TuningError
            `data` is not such a text.
        """
        try:
            fields: dict[str, Any] = json.loads(data)
            return cls(
                graph_from_json(fields["graph"]),
                variant_from_json(fields["variant"]),
                memory_from_json(fields["memory"]),
                str(fields["device"]),
                int(fields["seed"]),
            )
        except (
            AttributeError,
            DaedalError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise TuningError(
                "a task must be one that Daedal wrote; this one is damaged or something else "
                f"({type(error).__name__})"
            ) from error


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
