"""`exploration_page`: a search for variants as one HTML file that needs nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from daedal.codesign.exploration import Exploration
from daedal.codesign.results.point_folder import PointFolder
from daedal.codesign.results.prediction import ParameterStep, Prediction
from daedal.codesign.results.verify import Verified
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.objectives import Objective
from daedal.hw.synth.families import DEVICES, RESOURCES
from daedal.reports.exploration import array_text
from daedal.reports.exploration_charts import front_chart, parts_chart
from daedal.reports.verification import verification_rows
from daedal.runtime.profiler.layer_charts import cycles_chart
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.page_template import page_template
from daedal.runtime.profiler.svg import Drawing

__all__ = ["PointDetails", "exploration_page", "read_details"]


@dataclass(frozen=True)
class PointDetails:
    """What the page tells of a point of the front besides its figures."""

    prediction: Prediction
    profiles: Mapping[str, NetworkProfile]
    ideal_cycles: Mapping[str, int]


def read_details(point: PointFolder) -> PointDetails | None:
    """From the folder of a point; None where that is not complete.

    Raises ExploreError or ArtifactError where a file is damaged.
    """
    if not point.is_complete:
        return None
    networks = point.evaluation.cycles
    profiles = {name: point.profile(name) for name in networks}
    return PointDetails(point.predicted(), profiles, point.ideal_cycles())


def exploration_page(
    found: Exploration,
    details: Sequence[PointDetails | None],
    verified: Sequence[Verified] = (),
) -> str:
    """The page's text. `details` are those of the front's points, in order."""
    front, goal = found.front, found.goal
    energy = Objective.energy in goal.objectives
    names = {item.variant.name for item in front}
    others = [item for item in found.evaluations if item.variant.name not in names]
    return page_template("exploration.html", __package__).render(
        found=found,
        networks=list(front[0].cycles) if front else [],
        device=DEVICES[front[0].family].name if front else "",
        board=found.board,
        goal=[limit.words for limit in goal.limits],
        objectives=" and ".join(goal.objectives),
        has_energy=energy,
        chart=_markup(front_chart(front, others, verified, energy=energy)) if front else "",
        titles=RESOURCES,
        points=[_point(item, detail) for item, detail in zip(front, details, strict=True)],
        verified=list(verification_rows(verified)),
    )


def _point(item: Evaluation, details: PointDetails | None) -> dict[str, Any]:
    return {
        "item": item,
        "array": array_text(item),
        "latency": item.value(Objective.latency),
        "area": item.value(Objective.area),
        "energy": item.value(Objective.energy) if item.energy else None,
        "shares": item.shares,
        "clock": None if details is None else details.prediction.clock,
        "details": None if details is None else _details(details),
    }


def _details(details: PointDetails) -> dict[str, Any]:
    return {
        "networks": [
            (
                name,
                profile.cycles,
                details.ideal_cycles[name],
                _markup(cycles_chart(profile)),
            )
            for name, profile in details.profiles.items()
        ],
        "units": _markup(parts_chart(details.prediction)),
        "parameters": _parameters(details.prediction.steps),
    }


def _parameters(steps: Sequence[ParameterStep]) -> list[dict[str, Any]]:
    """A row for each parameter, with the previous and the next value of the space."""
    rows: dict[str, dict[str, Any]] = {}
    for step in steps:
        row = rows.setdefault(
            step.parameter, {"name": step.parameter, "now": _text(step.before), "steps": []}
        )
        row["steps"].append(
            {
                "value": _text(step.after),
                "latency": "does not fit" if step.latency is None else _percent(step.latency),
                "area": "" if step.area is None else _signed(step.area),
                "energy": "" if step.energy is None else _percent(step.energy),
            }
        )
    return list(rows.values())


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _percent(change: float) -> str:
    return f"{_signed(100 * change)} %"


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _markup(drawing: Drawing) -> Markup:
    # Element trees escape their contents.
    return Markup(drawing.text())
