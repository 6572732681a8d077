"""What tuning found: a table of the layers, a few sentences, and plain data."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from daedal.tuning.network import TaskResult

__all__ = ["tuning_json", "tuning_lines", "tuning_table"]


def tuning_table(results: Sequence[TaskResult]) -> Table:
    """A row for each kind of layer, those with the most cycles first."""
    table = Table("layer", "times", "default", "tuned", "faster", "trials", "configuration")
    for item in sorted(results, key=lambda item: -item.count * item.default_cycles):
        table.add_row(
            item.layer,
            str(item.count),
            f"{item.default_cycles:,}",
            f"{item.best_cycles:,}",
            f"{item.default_cycles / item.best_cycles:.3f}x",
            str(item.trials),
            str(item.config),
        )
    return table


def tuning_lines(results: Sequence[TaskResult], records: str) -> list[str]:
    """The total, and what to do with it."""
    before, after = _total(results)
    return [
        f"layers alone: {before:,} cycles by default, {after:,} tuned ({before / after:.3f}x)",
        f"`daedal compile --records {records}` compiles with these schedules",
    ]


def tuning_json(results: Sequence[TaskResult]) -> dict[str, Any]:
    """Plain data: the totals, and every kind of layer."""
    before, after = _total(results)
    return {
        "default_cycles": before,
        "tuned_cycles": after,
        "layers": [
            {
                "layer": item.layer,
                "count": item.count,
                "workload": item.workload.description,
                "key": item.workload.key,
                "default_cycles": item.default_cycles,
                "tuned_cycles": item.best_cycles,
                "trials": item.trials,
                "config": item.config.to_json(),
            }
            for item in results
        ],
    }


def _total(results: Sequence[TaskResult]) -> tuple[int, int]:
    """Cycles of all layers by default and tuned."""
    before = sum(item.count * item.default_cycles for item in results)
    return before, sum(item.count * item.best_cycles for item in results)
