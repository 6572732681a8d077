"""`synthesis_page`: a synthesis report as one HTML file that needs nothing else."""

from markupsafe import Markup

from daedal.hw.synth.families import RESOURCES
from daedal.hw.synth.flow import Implementation
from daedal.reports.synthesis import synthesis_record
from daedal.reports.synthesis_charts import paths_chart, units_chart
from daedal.runtime.profiler.page_template import page_template

__all__ = ["synthesis_page"]


def synthesis_page(result: Implementation, target: str) -> str:
    """The page's text: what the record says, with drawings."""
    record = synthesis_record(result, target)
    units = sorted(record["units"].items(), key=lambda item: -item[1]["lut"])
    return page_template("synthesis.html", __package__).render(
        record=record,
        titles=RESOURCES,
        units=units,
        charts={
            # Element trees escape what they hold.
            "paths": Markup(paths_chart(record["paths"]).text()),
            "units": Markup(units_chart(units).text()),
        },
    )
