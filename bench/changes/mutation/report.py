"""Results of a mutation test as a Markdown table."""

from collections import Counter
from collections.abc import Sequence

from bench.changes.mutation.judge import EQUIVALENT, SURVIVED, TIMEOUT, Verdict

__all__ = ["BAR", "killed_share", "report"]

BAR = 0.98
"""Share of the faults that are not equivalent which tests must notice."""


def killed_share(verdicts: Sequence[Verdict]) -> float:
    """Of the faults that are not equivalent, those that a test noticed; 1 where there are none."""
    real = [verdict for verdict in verdicts if verdict.state != EQUIVALENT]
    survived = sum(verdict.state == SURVIVED for verdict in real)
    return 1 - survived / len(real) if real else 1.0


def report(verdicts: Sequence[Verdict], *, everything: bool = False) -> str:
    """Counts by area, then survivors and equivalents; `everything` lists the killed ones, too."""
    columns = ("area", "faults", "killed", "by timeout", "by slow tests alone", "equivalent")
    columns = (*columns, "survived", "share", "of quick tests")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    areas = list(dict.fromkeys(verdict.area for verdict in verdicts))
    for area in areas:
        lines.append(_row(area, [verdict for verdict in verdicts if verdict.area == area]))
    if len(areas) > 1:
        lines.append(_row("all", verdicts))
    groups = {"Survived": [SURVIVED], "Equivalent": [EQUIVALENT], "Killed by timeout": [TIMEOUT]}
    if everything:
        groups["Killed"] = ["killed"]
    for title, states in groups.items():
        chosen = [verdict for verdict in verdicts if verdict.state in states]
        if chosen:
            lines += ["", f"{title}:", *map(_line, chosen)]
    return "\n".join(lines) + "\n"


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    count = Counter(verdict.state for verdict in verdicts)
    killed = count["killed"] + count[TIMEOUT]
    slow = sum(verdict.slow for verdict in verdicts)
    real = max(len(verdicts) - count[EQUIVALENT], 1)
    return (
        f"| {name} | {len(verdicts)} | {killed} | {count[TIMEOUT]} | {slow} | {count[EQUIVALENT]} "
        f"| {count[SURVIVED]} | {killed_share(verdicts):.1%} | {(killed - slow) / real:.1%} |"
    )


def _line(verdict: Verdict) -> str:
    by = verdict.by or f"{verdict.tests} tests, {verdict.seconds:.0f} s"
    return f"- {verdict.key} {verdict.title}: {by}"
