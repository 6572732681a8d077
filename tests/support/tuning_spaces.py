"""Toy spaces for the autotuner, with the cycles that a measurement would find."""

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.space import Config, Space, Table
from daedal.compiler.tune.workload import Workload

__all__ = ["Rugged", "Small", "ToyRunner", "proposals"]


class Small(Space):
    """Nine configurations; the estimate orders them as the cycles do."""

    @property
    def knobs(self):
        return {"height": (1, 2, 4, 8), "width": (1, 3, 5)}

    def fits(self, table: Table):
        return table["height"] * table["width"] <= 12

    def cycles(self, table: Table):
        return 100.0 / (table["height"] * table["width"]) + table["height"]

    def features(self, table: Table):
        return {"area": (table["height"] * table["width"]).astype(float)}

    def measure(self, configs: list[Config]) -> list[int | None]:
        """Cycles that differ from the estimate by a factor only."""
        return [int(1000 * value) for value in self.cycles(self.table(configs))]

    def __str__(self) -> str:
        return "small"


class Rugged(Space):
    """Several thousand tiles of a matrix product, with edges and bank conflicts.

    The estimate knows the products and the traffic of whole tiles. The cycles also have the waste
    of tiles at the edges, the startup of each tile, conflicts of rows whose number is a multiple of
    the banks, how well loads and products overlap, and a hash of the configuration of up to 2 %.
    """

    HEIGHT, WIDTH, DEPTH = 113, 210, 390

    @property
    def knobs(self):
        return {
            "height": tuple(range(2, 33, 2)),
            "width": tuple(range(4, 65, 6)),
            "depth": (8, 16, 24, 32, 48, 64, 96, 128),
            "threads": (1, 2),
            "keep": (0, 1, 2),
        }

    def fits(self, table: Table):
        inputs = table["height"] * table["depth"]
        weights = table["depth"] * table["width"]
        sums = table["height"] * table["width"]
        return table["threads"] * (inputs + weights + sums) <= 6000

    def cycles(self, table: Table):
        return self._products(table) + self._traffic(table, 1.0)

    def features(self, table: Table):
        tiles = self._tiles(table)
        return {
            **{knob: column.astype(float) for knob, column in table.items()},
            "products": self._products(table),
            "traffic": self._traffic(table, 1.0),
            "tiles": tiles,
            "edge_height": (-self.HEIGHT % table["height"]).astype(float),
            "edge_width": (-self.WIDTH % table["width"]).astype(float),
            "edge_depth": (-self.DEPTH % table["depth"]).astype(float),
        }

    def true_cycles(self, table: Table) -> npt.NDArray[np.int64]:
        """What a measurement finds."""
        edges = (
            np.ceil(self.HEIGHT / table["height"]) * table["height"] / self.HEIGHT
            + np.ceil(self.WIDTH / table["width"]) * table["width"] / self.WIDTH
            + np.ceil(self.DEPTH / table["depth"]) * table["depth"] / self.DEPTH
        ) / 3
        products = self._products(table) * edges**3 * np.where(table["height"] % 8 == 0, 1.12, 1)
        traffic = self._traffic(table, 0.0) + 40 * self._tiles(table)
        overlap = np.where(table["threads"] == 2, 0.15, 0.6)
        total = np.maximum(products, traffic) + overlap * np.minimum(products, traffic)
        mixed = np.zeros(len(total), dtype=np.uint64)
        for column in table.values():
            mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        return (total * (1 + (mixed % np.uint64(1000)) / 50_000)).astype(np.int64)

    def measure(self, configs: list[Config]) -> list[int | None]:
        """Cycles of each configuration."""
        return self.true_cycles(self.table(configs)).tolist()

    def _tiles(self, table: Table) -> npt.NDArray[np.float64]:
        return (
            np.ceil(self.HEIGHT / table["height"])
            * np.ceil(self.WIDTH / table["width"])
            * np.ceil(self.DEPTH / table["depth"])
        )

    def _products(self, table: Table) -> npt.NDArray[np.float64]:
        return np.full(len(table["height"]), self.HEIGHT * self.WIDTH * self.DEPTH / 64.0)

    def _traffic(self, table: Table, ideal: float) -> npt.NDArray[np.float64]:
        """Cycles of all loads, without the operand that stays on chip."""
        tiles = self._tiles(table)
        inputs = tiles * table["height"] * table["depth"]
        weights = tiles * table["depth"] * table["width"]
        across = np.ceil(self.WIDTH / table["width"])
        down = np.ceil(self.HEIGHT / table["height"])
        inputs = np.where(table["keep"] == 1, inputs / across * (1 + 0.3 * (1 - ideal)), inputs)
        weights = np.where(table["keep"] == 2, weights / down * (1 + 0.5 * (1 - ideal)), weights)
        return (inputs + weights) / 8.0

    def __str__(self) -> str:
        return "rugged"


class ToyRunner:
    """Measures a toy space, and keeps what was asked for."""

    def __init__(self, space: Small | Rugged) -> None:
        self.workload = Workload.from_json({"operator": "toy"})
        self.space = space
        self.measured: list[Config] = []

    def measure(self, config: Config) -> int | None:
        """Cycles of a configuration."""
        self.measured.append(config)
        return self.space.measure([config])[0]


def proposals(search, space, batches: int, count: int = 16) -> list[list[Config]]:
    """Batches up to the end of the search, each measured."""
    found = []
    for _ in range(batches):
        configs = search.propose(count)
        if not configs:
            break
        search.observe(configs, space.measure(configs))
        found.append(configs)
    return found
