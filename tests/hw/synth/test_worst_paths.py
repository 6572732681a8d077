"""Worst paths by the delays of pins, against every path of small random designs, one by one."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from daedal.hw.synth.hierarchy import Hierarchy
from daedal.hw.synth.sdf import read_sdf
from daedal.hw.synth.worst_paths import worst_paths

HIERARCHY = Hierarchy(frozenset({"a", "b", "b.c"}))
MODULES = ("a.", "b.", "b.c.", "")


@dataclass
class Design:
    """Registers, and tables in layers between them; a wire goes to a later layer alone."""

    registers: list[str]
    tables: list[str]
    clock_to_q: dict[str, int] = field(default_factory=dict)
    setup: dict[str, int] = field(default_factory=dict)
    inside: dict[tuple[str, str], int] = field(default_factory=dict)
    wires: dict[tuple[str, str], int] = field(default_factory=dict)

    def sdf(self) -> str:
        """The design as nextpnr writes it; names are escaped, and the first corners mislead."""

        def delay(ps: int) -> str:
            return f"(1:2:{ps}) (1:2:{ps})"

        def cell(kind: str, name: str, lines: list[str], checks: str = "") -> str:
            paths = "\n".join(f"        {line}" for line in lines)
            return (
                f'  (CELL\n    (CELLTYPE "{kind}")\n    (INSTANCE {escaped(name)})\n    (DELAY\n'
                f"      (ABSOLUTE\n{paths}\n      )\n    )\n{checks}    )\n"
            )

        def escaped(name: str) -> str:
            return name.replace("\\", "\\\\").replace("$", "\\$").replace("[", "\\[")

        wires = [
            f"(INTERCONNECT {escaped(a)} {escaped(b)} {delay(ps)})"
            for (a, b), ps in self.wires.items()
        ]
        cells = [cell("top", "", wires)]
        for name in self.registers:
            checks = "".join(
                f"    (TIMINGCHECK\n      (SETUPHOLD ({edge} DI) (posedge CLK) "
                f"(0:0:{self.setup[name]}) (9:9:99))\n    )\n"
                for edge in ("posedge", "negedge")
            )
            cells.append(
                cell("FF", name, [f"(IOPATH CLK Q {delay(self.clock_to_q[name])})"], checks)
            )
        for name in self.tables:
            lines = [
                f"(IOPATH {port} F {delay(ps)})"
                for (table, port), ps in self.inside.items()
                if table == name
            ]
            cells.append(cell("COMB", name, lines))
        return f"(DELAYFILE\n{''.join(cells)})\n"

    def paths(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Start, end, logic and routing in picoseconds, and tables, of every path."""

        def from_pin(pin: str, logic: int, routing: int, tables: int) -> Iterator[tuple[str, ...]]:
            for (a, b), ps in self.wires.items():
                if a == pin:
                    name, _, port = b.rpartition("/")
                    if port == "DI":
                        yield name, logic + self.setup[name], routing + ps, tables
                    elif port != "CLK":
                        passed = logic + self.inside[name, port]
                        yield from from_pin(f"{name}/F", passed, routing + ps, tables + 1)

        for start in self.registers:
            for found in from_pin(f"{start}/Q", self.clock_to_q[start], 0, 0):
                yield (start, *found)


def random_design(rng: np.random.Generator) -> Design:
    def names(kind: str, count: int) -> list[str]:
        return [f"{rng.choice(MODULES)}x${kind}[{number}" for number in range(count)]

    def time() -> int:
        return int(rng.integers(0, 2_000))

    design = Design(names("r", rng.integers(1, 7)), names("t", rng.integers(0, 12)))
    design.clock_to_q = {name: time() for name in design.registers}
    design.setup = {name: time() for name in design.registers}
    outputs = [f"{name}/Q" for name in design.registers]
    # A pin without a register before it: nothing comes from there.
    outputs.append("$PACKER_GND/F")
    for table in design.tables:
        for port in "ABC"[: rng.integers(1, 4)]:
            design.inside[table, port] = time()
            design.wires[str(rng.choice(outputs)), f"{table}/{port}"] = time()
        outputs.append(f"{table}/F")
    for name in design.registers:
        design.wires[str(rng.choice(outputs)), f"{name}/DI"] = time()
        # The clock comes over wires too, and through a table: neither is a path.
        design.wires["$CLOCK/F", f"{name}/CLK"] = 50_000
    return design


@pytest.mark.parametrize("case", range(40))
def test_slowest_paths_of_all_ends(case: int, rng: np.random.Generator) -> None:
    for _ in range(case + 1):
        design = random_design(rng)
    every = set(design.paths())
    slowest: dict[str, tuple[int, str]] = {}
    for start, end, logic, routing, _ in sorted(every):
        slowest[end] = max(slowest.get(end, (0, "")), (logic + routing, start))
    of_pair: dict[tuple[str, str], int] = {}
    for end, (time, start) in slowest.items():
        pair = (HIERARCHY.module_of(start), HIERARCHY.module_of(end))
        of_pair[pair] = max(of_pair.get(pair, 0), time)
    found = worst_paths(read_sdf(design.sdf()), HIERARCHY, "clk", num_paths=100)
    times = [path.delay_ns for path in found]
    assert times == sorted(times, reverse=True)
    assert {path.ends[2:]: round(1000 * path.delay_ns) for path in found} == of_pair
    for path in found:
        numbers = (round(1000 * path.logic_ns), round(1000 * path.routing_ns), path.levels)
        assert (path.start, path.end, *numbers) in every


def test_the_slowest_pairs_alone(rng: np.random.Generator) -> None:
    while True:
        delays = read_sdf(random_design(rng).sdf())
        every = worst_paths(delays, HIERARCHY, "clk", num_paths=100)
        if len(every) > 3:
            break
    assert worst_paths(delays, HIERARCHY, "clk", num_paths=3) == every[:3]


def test_a_design_without_paths() -> None:
    assert worst_paths(read_sdf("(DELAYFILE)"), HIERARCHY, "clk") == []
    idle = Design(["a.r"], [], {"a.r": 500}, {"a.r": 100})
    assert worst_paths(read_sdf(idle.sdf()), HIERARCHY, "clk") == []
