"""Text and tables of a search for variants."""

from collections.abc import Iterator

from rich.table import Table

from daedal.codesign.exploration import Exploration
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.objectives import Objective
from daedal.reports.tables import plain_table

__all__ = ["array_text", "exploration_lines", "exploration_table"]

_UNITS = {
    Objective.latency: "latency ms",
    Objective.area: "area %",
    Objective.energy: "energy, relative",
}


def array_text(item: Evaluation) -> str:
    """The array in short, such as 16x8 packed."""
    array = item.variant.array
    batch = f"{array.batch}x" if array.batch > 1 else ""
    taps = f" {_taps(array.depthwise_taps)}" if array.depthwise_taps else ""
    return f"{batch}{array.block_in}x{array.block_out} {array.multiplier_style}{taps}"


def _taps(count: int) -> str:
    return "1 tap" if count == 1 else f"{count} taps"


def exploration_table(found: Exploration) -> Table:
    """The front, fastest first."""
    front, goal = found.front, found.goal
    objectives = (_UNITS[objective] for objective in goal.objectives)
    cycles = (f"{name} cycles" for name in (front[0].cycles if front else ()))
    heads = ("variant", "array", *objectives, *cycles, "MHz", "LUT", "DSP", "block RAM")
    table = plain_table("Pareto front", heads, 2)
    for item in front:
        used = item.resources
        table.add_row(
            item.variant.name,
            array_text(item),
            *(f"{item.value(objective):.3f}" for objective in goal.objectives),
            *(f"{count:,.0f}" for count in item.cycles.values()),
            f"{item.mhz:.0f}",
            f"{used['lut']:,.0f}",
            f"{used['dsp']:.0f}",
            f"{used['block_ram']:.0f}",
        )
    return table


def exploration_lines(found: Exploration, host_rates: str = "default") -> Iterator[str]:
    """What was done, and where it lies; `host_rates` names the host's rates."""
    refused = f", {found.refused} refused by the compiler" if found.refused else ""
    yield (
        f"{found.counted} variants compiled and counted{refused}, {found.estimated:,} estimated, "
        f"in {found.seconds / 60:.1f} minutes"
    )
    if found.interrupted:
        yield "interrupted; the same command continues"
    yield from _host_lines(found, host_rates)
    yield "area and clock are estimates; --verify or daedal synth measures them"
    if Objective.energy in found.goal.objectives:
        yield "energy is for comparisons with others of this kit only: nothing of it was measured"
    yield f"wrote {found.folder}; its index.html shows the front and each point"


def _host_lines(found: Exploration, host_rates: str) -> Iterator[str]:
    """How much of the latencies is the host's."""
    if found.front and found.front[0].host_ms:
        parts = ", ".join(f"{name} {ms:.3f} ms" for name, ms in found.front[0].host_ms.items())
        yield f"latencies include the host's time, by the {host_rates} host rates: {parts}"
