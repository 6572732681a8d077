"""Layers that once fell far below the roofline: ``python bench/networks/cliffs.py [--json F]``.

Each case of `bench.networks.cliff_cases` is compiled as a network of its own for variant `vta`,
and, where the bus bounds it, for the same with a bus of twice the width. Its cycles are the cycle
model's, with memory preset `ddr`, from start to interrupt; its bytes come from the functional
simulator and are compared with the integer reference. Exit status 1 when a byte is wrong or a bar
is missed.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.json_file import write_json
from bench.networks.cliff_cases import CASES, Case
from daedal.artifact.artifact import Artifact
from daedal.compiler.targets.crossings import DEFAULT_HOST
from daedal.isa.variant import Variant

__all__ = ["Row", "main", "measure"]


@dataclass(frozen=True)
class Row:
    """One case, measured."""

    case: str
    cycles: int
    roofline: float
    share: float
    bar: float | None
    bytes_wrong: int
    on_host: tuple[str, ...]
    wide: float | None = None
    wide_bar: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the bytes are right, the accelerator did it all, and the bar holds."""
        fast = self.bar is None or self.share >= self.bar
        if self.wide is not None and self.wide_bar is not None:
            fast = fast and self.wide >= self.wide_bar
        return fast and not self.bytes_wrong and not self.on_host


def measure(case: Case, variant: Variant) -> Row:
    """Compile, count and check one case."""
    model = case.build().SerializeToString()
    host = DEFAULT_HOST if case.hosted else None
    artifact = daedal.compile(model, variant, host=host)
    (spec,) = case.build().graph.input
    shape = tuple(dim.dim_value for dim in spec.type.tensor_type.shape.dim)
    feeds = {spec.name: np.random.default_rng(5).normal(0, 3, shape).astype(np.float32)}
    check = daedal.check_layers(artifact, model, feeds)
    compared = [item.difference for item in check.tensors if item.difference is not None]
    wrong = sum(item.num_different for item in compared)
    cycles = count_cycles(artifact, feeds)
    roofline = case.roofline(variant)
    if case.without is not None:
        plain = daedal.compile(case.without().SerializeToString(), variant, host=host)
        roofline = count_cycles(plain, feeds)
    at_home = ("QuantizeLinear", "DequantizeLinear", *case.hosted)
    return Row(
        case.name,
        cycles,
        roofline,
        roofline / cycles,
        case.bar,
        wrong,
        tuple(
            item.op
            for item in artifact.placements
            if item.where == "host" and item.op not in at_home
        ),
    )


def count_cycles(artifact: Artifact, feeds: Mapping[str, np.ndarray]) -> int:
    """Cycles of all launches, by the cycle model."""
    profiles = daedal.simulate(artifact, feeds, device="timing").profiles
    return sum(profile.cycles or 0 for profile in profiles)


def show(console: Console, rows: Sequence[Row]) -> None:
    """A table of all cases."""
    table = Table("case", "cycles", "roofline", "share", "bar", "wide bus", "bar", "wrong", "")
    for row in rows:
        table.add_row(
            row.case,
            f"{row.cycles:,}",
            f"{row.roofline:,.0f}",
            f"{row.share:.1%}",
            "" if row.bar is None else f"{row.bar:.0%}",
            "" if row.wide is None else f"{row.wide:.2f}",
            "" if row.wide_bar is None else f"{row.wide_bar}",
            str(row.bytes_wrong),
            "" if row.passed else "missed",
        )
    console.print(table)


def main() -> int:
    """Measure, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    log = Console(stderr=True)
    variant = daedal.load_variant("vta")
    wide = replace(variant, bus=replace(variant.bus, data_bits=2 * variant.bus.data_bits))
    rows = []
    for case in CASES:
        if options.only is None or options.only in case.name:
            log.log(case.name)
            row = measure(case, variant)
            if case.wide_bar is not None:
                other = measure(case, wide)
                row = replace(row, wide=row.cycles / other.cycles, wide_bar=case.wide_bar)
                row = replace(row, bytes_wrong=row.bytes_wrong + other.bytes_wrong)
            rows.append(row)
    show(Console(width=120), rows)
    content = [{**asdict(row), "passed": row.passed} for row in rows]
    write_json(options.json, content)
    return int(not all(row.passed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
