"""`BusyUnits`: cycles in which each unit works on a layer, and the tiles in which it does."""

from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler.cost.memory import MemoryCost
from daedal.isa.memory_model import MemoryModel

__all__ = ["BusyUnits"]


@dataclass(frozen=True)
class BusyUnits:
    """Cycles of GEMM, of the ALU, and of the bus.

    Attributes
    ----------
    tiles : in which the layer is computed.
    bands : parts of its map; tiles of the same band differ in channels only.
    """

    products: float
    vectors: float
    words: float
    tiles: float = 1.0
    bands: float = 1.0

    @classmethod
    def of(
        cls, features: Mapping[str, float], memory: MemoryModel, shape: tuple[int, ...]
    ) -> "BusyUnits":
        """Of one schedule, from its `LayerSpace.features`; `shape` is (N, C, H, W) of the
        result."""
        get = features.get
        products, vectors = get("product_cycles", 0.0), get("vector_cycles", 0.0)
        words = get("beats", 0.0) * max(MemoryCost.of(memory).word_cycles, 1)
        tiles = get("tiles", 0.0)
        if "tile_product_cycles" in features:
            tiles = products / max(features["tile_product_cycles"], 1.0)
        elif not tiles and "tile_vector_cycles" in features:
            tiles = vectors / max(features["tile_vector_cycles"], 1.0)
        bands = 1.0
        for extent, knob in zip(shape[2:], ("height", "width"), strict=False):
            bands *= -(-extent // max(get(knob, float(extent)), 1.0))
        tiles = max(tiles, 1.0)
        return cls(products, vectors, words, tiles, min(bands, tiles))
