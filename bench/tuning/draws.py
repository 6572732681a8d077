"""Uniform draws from the spaces of schedules: do they build, verify and compute right?

    python bench/tuning/draws.py [--draws N] [--seconds S] [--seed N] [--only NAME ...] [--json F]

The templates are those of `bench.tuning.workloads`, on four variants; shapes are so small that a
candidate takes less than a second, and all but a few spaces still have `LEAST_PROGRAMS` programs or
more. Configurations are drawn without replacement from the whole space, its largest programs
included. Each is built, verified, run on the cycle model, and its bytes are compared with the
integer interpreter's; its cycles may not be below its proved bound. Exit status 1 if one fails.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.json_file import write_json
from bench.tuning.workloads import Layer, TuningWorkload
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant
from daedal.tuning.layer_runner import LayerRunner

__all__ = ["LEAST_PROGRAMS", "TEMPLATES", "VARIANTS", "DrawRow", "Draws", "main"]

VARIANTS = ("vta", "ecp5_half", "tiny", "wide")
LEAST_PROGRAMS = 500
ROUND = 5
"""Draws from one space before the next one's turn."""

TEMPLATES: dict[str, Callable[[int], Layer]] = {
    "3x3": lambda b: Layer(7, (2 * b, 4 * b), 3),
    "3x3 stride 2": lambda b: Layer(7, (b, 12 * b), 3, 2),
    "1x1": lambda b: Layer(7, (2 * b, 8 * b)),
    "1x1 stride 2": lambda b: Layer(5, (4 * b, 12 * b), 1, 2),
    "5x5": lambda b: Layer(8, (b, 4 * b), 5),
    "dilated": lambda b: Layer(10, (b, 2 * b), 3, dilation=2),
    "grouped": lambda b: Layer(5, (6 * b, 6 * b), 3, groups=2),
    "fragment": lambda b: Layer(8, (2 * b + b // 4, 2 * b + b // 2), 3),
    "stem": lambda b: Layer(24, (3, 2 * b), 7, 2),
    "depthwise": lambda b: Layer(8, (8 * b, 8 * b), 3, groups=8 * b),
    "depthwise stride 2": lambda b: Layer(14, (8 * b, 8 * b), 3, 2, groups=8 * b),
    "matmul": lambda b: Layer(1, (24 * b, 24 * b), rows=8),
    "dense": lambda b: Layer(1, (24 * b, 24 * b), rows=1),
}
"""Layers by the channels of a block. `ecp5_half` has no depthwise mode: there, a depthwise layer is
a grouped one. Stems and products with one row have few schedules at any size."""


@dataclass
class DrawRow:
    """Draws from one space.

    Attributes
    ----------
    programs : size of the space.
    draws : configurations drawn from it.
    failures : the configuration and what went wrong, for each that failed.
    """

    template: str
    variant: str
    programs: int
    draws: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


class Draws:
    """Draws from one space, in a random order that depends on `seed`."""

    def __init__(self, template: str, variant: str, seed: int) -> None:
        array = load_variant(variant).array
        layer = TEMPLATES[template](max(array.block_in, array.block_out))
        self._runner: LayerRunner | None = None
        self._workload = TuningWorkload(template, variant, layer)
        self.space = self._workload.space
        programs = 0
        if self.space is not None:
            table = self.space.all()
            programs = len(next(iter(table.values())))
            order = np.random.default_rng(seed).permutation(programs)
            self._table = {knob: column[order] for knob, column in table.items()}
        self.row = DrawRow(template, variant, programs)

    def draw(self, count: int) -> bool:
        """Try so many more configurations; False if there are no more."""
        row = self.row
        rows = slice(row.draws, min(row.draws + count, row.programs))
        if self.space is None or rows.start >= rows.stop:
            return False
        begin = time.monotonic()
        if self._runner is None:
            self._runner = self._workload.runner
        for config in self.space.configs({key: col[rows] for key, col in self._table.items()}):
            reason = self._failure(config)
            row.draws += 1
            if reason:
                row.failures.append(f"{config}: {reason}")
        row.seconds += time.monotonic() - begin
        return True

    def _failure(self, config: Config) -> str:
        """What is wrong with one configuration; empty if nothing is."""
        assert self._runner is not None and self.space is not None
        try:
            (result,) = self._runner.results([config])
        except Exception as error:  # whatever it is, the draw failed, and the others go on
            return f"{type(error).__name__}: {error}"
        if result.cycles is None:
            return f"{result.failure}: {result.reason}"
        (bound,) = self.space.bound(self.space.table([config]), PRESETS["ddr"])
        if result.cycles < bound:
            return f"takes {result.cycles} cycles, less than its bound of {bound:.0f}"
        return ""


def drawn(
    templates: Sequence[str], draws: int, seconds: float, seed: int
) -> Iterator[list[DrawRow]]:
    """The rows after each round, until each space has had `draws` or the time is over."""
    deadline = time.monotonic() + seconds
    spaces = [Draws(template, variant, seed) for template in templates for variant in VARIANTS]
    spaces = [item for item in spaces if item.row.programs > 1]
    while True:
        before = sum(item.row.draws for item in spaces)
        for item in spaces:
            if time.monotonic() < deadline:
                item.draw(min(ROUND, draws - item.row.draws))
        yield [item.row for item in spaces]
        if time.monotonic() >= deadline or sum(item.row.draws for item in spaces) == before:
            return


def table_of(rows: Sequence[DrawRow]) -> Table:
    """The draws of each template, over the variants."""
    table = Table("template", "variants", "programs", "draws", "failed", "s/draw")
    for template in dict.fromkeys(row.template for row in rows):
        own = [row for row in rows if row.template == template]
        draws = sum(row.draws for row in own)
        table.add_row(
            template,
            " ".join(row.variant for row in own),
            " ".join(f"{row.programs}" for row in own),
            f"{draws}",
            f"{sum(len(row.failures) for row in own)}",
            f"{sum(row.seconds for row in own) / max(draws, 1):.2f}",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, print the table and what failed, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=100, metavar="N", help="from each space")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=sorted(TEMPLATES), metavar="NAME")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows: list[DrawRow] = []
    for rows in drawn(
        options.only or tuple(TEMPLATES), options.draws, options.seconds, options.seed
    ):
        write_json(options.json, [asdict(row) for row in rows])
    console = Console()
    console.print(table_of(rows))
    failures = [(row, failure) for row in rows for failure in row.failures]
    for row, failure in failures:
        console.print(f"{row.template} on {row.variant}: {failure}", markup=False)
    large = [row for row in rows if row.programs >= LEAST_PROGRAMS]
    failed = sum(len(row.failures) for row in large)
    console.print(
        f"{sum(row.draws for row in large)} draws from {len(large)} spaces of {LEAST_PROGRAMS} "
        f"programs or more, {failed} failed; {sum(row.draws for row in rows)} draws from all "
        f"{len(rows)}, {len(failures)} failed"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
