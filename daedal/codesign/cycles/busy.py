"""`BusyUnits`: cycles in which each unit works on a layer, for its default schedule."""

from dataclasses import dataclass

from daedal.compiler.cost.memory import MemoryCost
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.isa.memory_model import MemoryModel

__all__ = ["BusyUnits"]


@dataclass(frozen=True)
class BusyUnits:
    """Cycles of GEMM, of the ALU, and of the bus."""

    products: float
    vectors: float
    words: float

    @classmethod
    def of(cls, space: LayerSpace, memory: MemoryModel) -> "BusyUnits":
        """Of a layer's default schedule. Raises UserError where nothing fits."""
        features = space.features(space.table([space.default_with(memory)]))

        def first(name: str) -> float:
            return float(features[name][0]) if name in features else 0.0

        word_cycles = max(MemoryCost.of(memory).word_cycles, 1)
        return cls(first("product_cycles"), first("vector_cycles"), first("beats") * word_cycles)

    @property
    def busiest(self) -> float:
        """The cycles of the unit that works longest."""
        return max(self.products, self.vectors, self.words)
