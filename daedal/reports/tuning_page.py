"""`tuning_page`: a tuning run as one HTML file that needs nothing else."""

from typing import Any

from markupsafe import Markup

from daedal.isa.variant import Variant
from daedal.reports.explanation import explanation_lines
from daedal.reports.tuning import changes_text, percent_text, tuning_lines
from daedal.reports.tuning_charts import contributions_chart, curve_chart, units_change_chart
from daedal.runtime.profiler.page_template import page_template
from daedal.runtime.profiler.svg import Drawing
from daedal.tuning.explanation import Explanation
from daedal.tuning.network import NetworkTuning, TaskResult

__all__ = ["tuning_page"]

_SHOWN = 10
"""Classes of units that are drawn."""


def tuning_page(
    tuning: NetworkTuning, *, name: str, variant: Variant, memory: str, records: str
) -> str:
    """The page's text. `name` is the model's, for the title; `records` the database's."""
    results = sorted(tuning.results, key=lambda item: -item.count * item.default_cycles)
    return page_template("tuning.html", __package__).render(
        name=name,
        variant=variant,
        memory=memory,
        tuning=tuning,
        lines=list(tuning_lines(tuning, records)),
        layers=[_layer(item) for item in results],
        explanations=[_explanation(item) for item in tuning.explanations],
    )


def _layer(item: TaskResult) -> dict[str, Any]:
    return {
        "item": item,
        "changes": changes_text(item),
        "above": percent_text(item.excess),
        "chart": _markup(curve_chart(item)),
    }


def _explanation(item: Explanation) -> dict[str, Any]:
    return {
        "item": item,
        "lines": list(explanation_lines(item)),
        "contributions": _markup(contributions_chart(item.contributions)),
        "units": _markup(units_change_chart(item.units[:_SHOWN])),
    }


def _markup(drawing: Drawing) -> Markup:
    # Element trees escape their contents.
    return Markup(drawing.text())
