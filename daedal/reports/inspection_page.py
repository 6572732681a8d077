"""`inspection_page`: what `daedal inspect` found as one HTML file that needs nothing else."""

from markupsafe import Markup

from daedal.inspection import Inspection
from daedal.reports.artifact import summary_lines
from daedal.reports.costs import cost_lines
from daedal.reports.host_code import code_lines
from daedal.reports.inspection import inspection_json
from daedal.reports.partition_chart import partition_chart
from daedal.runtime.profiler.page_template import page_template

__all__ = ["inspection_page"]


def inspection_page(report: Inspection, name: str) -> str:
    """The page's text; `name` is that of the artifact."""
    artifact = report.artifact
    record = inspection_json(report)
    return page_template("inspection.html", __package__).render(
        name=name,
        record=record,
        nodes=[node for node in record["nodes"] if node["where"] != "folded"],
        lines=[*summary_lines(artifact), *code_lines(artifact), *cost_lines(artifact)],
        # Element trees escape what they hold.
        chart=Markup(partition_chart(report).text()),
    )
