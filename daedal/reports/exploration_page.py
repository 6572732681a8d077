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
from daedal.codesign.search.front_search import Goal
from daedal.codesign.search.objectives import Objective
from daedal.hw.synth.families import DEVICES, RESOURCES
from daedal.reports.exploration import array_text
from daedal.reports.exploration_charts import front_chart, parts_chart
from daedal.reports.parameters import differing_parameters, value_text
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
    links = {item.variant.name: f"point-{number}" for number, item in enumerate(front, 1)}
    chart = front_chart(front, others, verified, energy=energy, links=links) if front else None
    return page_template("exploration.html", __package__).render(
        found=found,
        networks=list(front[0].cycles) if front else [],
        device=DEVICES[front[0].family].name if front else "",
        board=found.board,
        goal=[limit.words for limit in goal.limits],
        objectives=" and ".join(goal.objectives),
        has_energy=energy,
        chart="" if chart is None else _markup(chart),
        titles=RESOURCES,
        points=[
            _point(item, links[item.variant.name], detail, goal)
            for item, detail in zip(front, details, strict=True)
        ],
        differing=differing_parameters([item.variant for item in front]),
        value_text=value_text,
        verified=list(verification_rows(verified)),
    )


def _point(item: Evaluation, link: str, details: PointDetails | None, goal: Goal) -> dict[str, Any]:
    return {
        "item": item,
        "link": link,
        "array": array_text(item),
        "latency": item.value(Objective.latency),
        "area": item.value(Objective.area),
        "energy": item.value(Objective.energy) if item.energy else None,
        "shares": item.shares,
        "clock": None if details is None else details.prediction.clock,
        "details": None if details is None else _details(item, details, goal),
    }


def _details(item: Evaluation, details: PointDetails, goal: Goal) -> dict[str, Any]:
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
        "parameters": _parameters(item, details.prediction.steps, goal),
    }


def _parameters(
    here: Evaluation, steps: Sequence[ParameterStep], goal: Goal
) -> list[dict[str, Any]]:
    """A row for each parameter, with the previous and the next value of the space."""
    rows: dict[str, dict[str, Any]] = {}
    for step in steps:
        row = rows.setdefault(
            step.parameter, {"name": step.parameter, "now": value_text(step.before), "steps": []}
        )
        row["steps"].append(
            {
                "value": value_text(step.after),
                "latency": "does not fit" if step.latency is None else _percent(step.latency),
                "area": "" if step.area is None else _signed(step.area),
                "energy": "" if step.energy is None else _percent(step.energy),
                "breaks": ", ".join(limit.words for limit in step.exceeded(here, goal.all_limits)),
            }
        )
    return list(rows.values())


def _percent(change: float) -> str:
    return f"{_signed(100 * change)} %"


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _markup(drawing: Drawing) -> Markup:
    # Element trees escape their contents.
    return Markup(drawing.text())
