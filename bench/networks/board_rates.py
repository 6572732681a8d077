"""Frames and tokens per second of networks on a board: what its memory costs, and what bounds each.

Input: a clock. Output: rows of figures, counted on the cycle model; and the table of docs/boards.md
from the ledger, for the clock of the board's memory. ``make docs`` writes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.changes import ledger_models as models
from bench.changes.ledger_machines import TRANSFORMERS_ON_BOARD, machine
from bench.changes.ledger_table import read_ledger
from bench.figures import Figures
from daedal.codesign.hardware.board import board_named
from daedal.common.files import write_atomically
from daedal.common.markdown import markdown_table, with_section
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.sdram_memory import SLOT_CYCLES, SdramMemory
from daedal.isa.sdram_slots import SlotTimes
from daedal.isa.variant import Variant

__all__ = [
    "BOARD",
    "BOARD_MEMORIES",
    "BOARD_MEMORY",
    "BOARD_NETWORKS",
    "BoardNetwork",
    "Rate",
    "count_rate",
    "ledger_rates",
    "memories_at",
    "rates_section",
    "with_rates_section",
]

BOARD = board_named("ulx3s-85f")

BLOCK_RAM = MemoryModel("block_ram", 11, 3, 6, 6, shared_bus=False)
"""Latencies as `hw/boards/memory_slave.py` has them; a direction's registers, queue and current
burst hold six bursts."""

BOARD_MEMORY = "SDRAM"
BOARD_MEMORIES = {
    BOARD_MEMORY: PRESETS[BOARD.memory],
    "block RAM": BLOCK_RAM,
    "ideal memory": PRESETS["ideal"],
}
"""At the fastest clock that the SDRAM allows. No network of the table fits the block RAM: it shows
what a memory of short latency would give."""


@dataclass(frozen=True)
class BoardNetwork:
    """A network and its machine, as the ledger names them; `count` compiles and counts it."""

    name: str
    machine: str
    title: str
    count: Callable[[MemoryModel, Variant], Figures]
    result: str = "frames"


BOARD_NETWORKS = (
    *(
        BoardNetwork(name, "ecp5", title, partial(models.on_board, name))
        for name, title in (
            ("resnet18", "ResNet-18"),
            ("mobilenet_v1", "MobileNet v1"),
            ("mobilenet_v2", "MobileNet v2"),
        )
    ),
    BoardNetwork("vit_mnist", TRANSFORMERS_ON_BOARD, "ViT", partial(models.on_board, "vit_mnist")),
    BoardNetwork(
        "stories260k_decode",
        TRANSFORMERS_ON_BOARD,
        "stories260k",
        models.decode_on_board,
        result="tokens",
    ),
)


@dataclass(frozen=True)
class Rate:
    """A network's figures with each memory, at a clock."""

    network: BoardNetwork
    figures: Mapping[str, Figures]
    mhz: float

    def per_second(self, memory: str) -> float:
        """Frames, or tokens."""
        return 1e6 * self.mhz / self.figures[memory].cycles

    @property
    def shares(self) -> dict[str, float]:
        """Of the cycles with SDRAM, those in which each part works at the least: GEMM starts a
        product, the ALU is busy, a word is on the bus, or on the memory's pins."""
        found = self.figures[BOARD_MEMORY]
        assert found.products is not None and found.vectors is not None, "boards have them"
        words = found.bytes_moved / machine(self.network.machine).bus_bytes
        amounts = {
            "products": found.products,
            "ALU": found.vectors,
            "bus words": words,
            "memory": words * SLOT_CYCLES,
        }
        return {name: amount / found.cycles for name, amount in amounts.items()}

    @property
    def bound(self) -> str:
        """The part that works longest."""
        return max(self.shares.items(), key=lambda item: item[1])[0]

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        rates = (f"{self.per_second(memory):,.1f}" for memory in self.figures)
        shares = (f"{share:.0%}" for share in self.shares.values())
        cycles = f"{self.figures[BOARD_MEMORY].cycles:,}"
        return (self.network.title, self.network.result, cycles, *rates, *shares, self.bound)


def memories_at(mhz: float) -> dict[str, MemoryModel]:
    """The memories with the machine at this clock. Raises UserError where the SDRAM's chip is
    slower."""
    times = SlotTimes.of(BOARD.sdram.chip, 2e6 * mhz)
    sdram = SdramMemory(times, capture_clocks=BOARD.sdram.capture_clocks)
    return {**BOARD_MEMORIES, BOARD_MEMORY: MemoryModel.of_sdram(BOARD.memory, sdram)}


def count_rate(network: BoardNetwork, mhz: float) -> Rate:
    """Compiled and counted now. Raises MissingModel where the shared test data are not there."""
    variant = machine(network.machine)
    figures = {name: network.count(memory, variant) for name, memory in memories_at(mhz).items()}
    return Rate(network, figures, mhz)


def ledger_rates() -> list[Rate]:
    """Those of the ledger, at the fastest clock of the board's memory."""
    table = read_ledger()
    return [
        Rate(
            network,
            {
                name: table[f"{network.name}.{network.machine}_{memory.name}"]
                for name, memory in BOARD_MEMORIES.items()
            },
            BOARD.most_mhz,
        )
        for network in BOARD_NETWORKS
    ]


BEGIN = "<!-- generated by `make docs` from the ledger; do not edit -->\n"
END = "<!-- end of the generated part -->\n"


def rates_section() -> str:
    """The table between its two markers."""
    found = ledger_rates()
    heads = (
        f"at {BOARD.most_mhz:.1f} MHz",
        "per second",
        "cycles, SDRAM",
        *BOARD_MEMORIES,
        *found[0].shares,
        "bound by",
    )
    return "\n".join([BEGIN, markdown_table(heads, [rate.cells for rate in found]), END])


def with_rates_section(page: str) -> str:
    """A page with the section between its two markers replaced."""
    return with_section(page, BEGIN, rates_section(), END, "table of rates")


def main() -> None:
    """Write the generated part of docs/boards.md of this source tree."""
    page = Path(__file__).resolve().parents[2] / "docs" / "boards.md"
    write_atomically(page, with_rates_section(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
