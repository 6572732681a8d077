"""The pictures of docs/codesign.md, from what `daedal explore` wrote.

    python bench/codesign/pictures.py FOLDER

The Pareto plot, and of the fastest point the layers and the area of the parts, as standalone SVGs.
"""

import argparse
import json
from pathlib import Path

from daedal.codesign.results.directory import SearchDirectory
from daedal.common.files import write_atomically
from daedal.reports.exploration_charts import front_chart, parts_chart
from daedal.runtime.profiler.layer_charts import cycles_chart
from daedal.runtime.profiler.svg import Drawing, standalone

__all__ = ["NAMES", "pictures"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = ("front", "layers", "parts")


def pictures(folder: Path) -> dict[str, Drawing]:
    """The drawings of a finished search of one network, by `NAMES`."""
    directory = SearchDirectory(folder)
    rounds = directory.open(json.loads((folder / "search.json").read_text(encoding="utf-8")))
    counted = [item for done in rounds.values() for item in done.found.values() if item is not None]
    names = [item["variant"]["name"] for item in json.loads((folder / "front.json").read_text())]
    by_name = {item.variant.name: item for item in counted}
    front = [by_name[name] for name in names]
    fastest = directory.point(front[0])
    (network,) = fastest.evaluation.cycles
    drawings = (
        front_chart(front, [item for item in counted if item not in front]),
        cycles_chart(fastest.profile(network)),
        parts_chart(fastest.predicted()),
    )
    return dict(zip(NAMES, drawings, strict=True))


def main() -> None:
    """Write the pictures next to the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    for name, drawing in pictures(parser.parse_args().folder).items():
        write_atomically(DOCS / f"codesign-{name}.svg", standalone(drawing))


if __name__ == "__main__":
    main()
