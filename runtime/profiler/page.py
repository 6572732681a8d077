"""`profile_page`: a profile as one self-contained HTML file.

It has the table, the roofline, bars and, if the profile has one, a zoomable timeline. Names come
from models and are untrusted: the template escapes all of them, and the page's content security
policy forbids loading anything.
"""

from typing import Any

from markupsafe import Markup

from daedal.isa.registers import CLASSES
from daedal.isa.table import Unit
from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.layer_charts import cycles_chart, units_chart
from daedal.runtime.profiler.legend import kind_title
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.page_template import page_template
from daedal.runtime.profiler.roofline_chart import roofline_chart
from daedal.runtime.profiler.timeline import DRAWN, Timeline

__all__ = ["profile_page"]


def profile_page(profile: NetworkProfile) -> str:
    """The page's text."""
    return page_template("page.html").render(
        profile=profile,
        charts={
            # Element trees escape their contents.
            "roofline": Markup(roofline_chart(profile).text()),
            "cycles": Markup(cycles_chart(profile).text()),
            "units": Markup(units_chart(profile).text()),
        },
        kinds=[(kind.name.lower(), kind_title(kind)) for kind in DRAWN],
        unit_rows=[(unit.name, profile.units[unit]) for unit in Unit],
        classes=[(kind, kind_title(kind)) for kind in CLASSES],
        timeline=None if profile.timeline is None else _lanes(profile, profile.timeline),
    )


def _lanes(profile: NetworkProfile, timeline: Timeline) -> dict[str, Any]:
    """Data for the page's script: rows of numbers, in the order of `DRAWN`."""
    names = {item.layer.tag: item.layer.name for item in profile.layers}
    labels = sorted({item.label for item in timeline.intervals})
    number = {label: index for index, label in enumerate(labels)}
    return {
        "cycles": timeline.cycles,
        "kinds": [kind.name.lower() for kind in DRAWN],
        "titles": [kind_title(kind) for kind in DRAWN],
        "labels": labels,
        "layers": [[names[span.tag], span.begin, span.end] for span in timeline.layer_spans()],
        "lanes": [
            {
                "unit": unit.name,
                "rows": [
                    [
                        item.begin,
                        item.instruction,
                        number[item.label],
                        "" if item.tag is None else names[item.tag],
                        *(item.counters.classes[kind] for kind in DRAWN),
                    ]
                    for item in timeline.lane(unit)
                ],
            }
            for unit in LAYER_UNITS
        ],
    }
