"""Tables and pictures of docs/profiling.md, from the two profiles in profiling/.

``python -m daedal.reports.profiling_page`` writes them. The profiles were measured by the commands
of the page; its tests run these again and compare.
"""

import io
import re
from pathlib import Path

from rich.console import Console
from rich.table import Table

from daedal.common.files import write_atomically
from daedal.reports.profile import conditions_text, diff_table, layers_table, units_table
from daedal.runtime.profiler.diff import diff_profiles
from daedal.runtime.profiler.layer_charts import cycles_chart, units_chart
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.reader import load_profile
from daedal.runtime.profiler.roofline_chart import roofline_chart
from daedal.runtime.profiler.svg import standalone
from daedal.runtime.profiler.timeline_chart import timeline_chart

__all__ = ["LAYER", "pictures", "profiles", "tables", "with_tables"]

LAYER = "add0_linear"
"""The layer whose slowness the page explains."""

_WIDTH = 120
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n```text\n).*?(```\n)", re.DOTALL)


def profiles(docs: Path) -> tuple[NetworkProfile, NetworkProfile]:
    """Before and after the fix."""
    folder = docs / "profiling"
    return load_profile(folder / "before.json"), load_profile(folder / "after.json")


def tables(before: NetworkProfile, after: NetworkProfile) -> dict[str, str]:
    """Texts of the page's tables by the names in its comments."""
    layer = next(item for item in before.layers if item.layer.name == LAYER)
    diff = diff_profiles(before, after)
    return {
        "layers": _text(layers_table(before)),
        "units": _text(units_table(f"Units in {LAYER}", layer.units)),
        "diff": f"{conditions_text(diff)}{_text(diff_table(diff))}\n{diff.summary}\n",
    }


def pictures(before: NetworkProfile) -> dict[str, str]:
    """Pictures of the page by file name."""
    assert before.timeline is not None, "the profile before the fix has a timeline"
    tag = next(item.layer.tag for item in before.layers if item.layer.name == LAYER)
    span = next(item for item in before.timeline.layer_spans() if item.tag == tag)
    margin = (span.end - span.begin) // 4
    end = min(before.timeline.cycles, span.end + margin)
    drawings = {
        "cycles.svg": cycles_chart(before),
        "roofline.svg": roofline_chart(before),
        "units.svg": units_chart(before),
        "timeline.svg": timeline_chart(before, max(0, span.begin - margin), end),
    }
    return {name: standalone(drawing) for name, drawing in drawings.items()}


def with_tables(page: str, texts: dict[str, str]) -> str:
    """`page` with the text of every block that a comment ``<!-- table: NAME -->`` names."""
    return _BLOCK.sub(lambda match: match[1] + texts[match[2]] + match[3], page)


def _text(table: Table) -> str:
    console = Console(width=_WIDTH, file=io.StringIO(), record=True)
    console.print(table)
    lines = console.export_text(styles=False).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def main() -> None:
    """Write tables and pictures of the page in docs/."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    before, after = profiles(docs)
    for name, text in pictures(before).items():
        write_atomically(docs / "profiling" / name, text)
    page = docs / "profiling.md"
    write_atomically(page, with_tables(page.read_text("utf-8"), tables(before, after)))


if __name__ == "__main__":
    main()
