"""The page of `daedal inspect`: complete in itself, a picture of all parts, and names stay text."""

import numpy as np
import onnx
import pytest

import daedal
from daedal.inspection import Inspection
from daedal.reports.inspection_page import inspection_page
from daedal.reports.partition_chart import partition_chart
from tests.support.browser import Browser
from tests.support.page_reader import HOSTILE, Reader, assert_complete
from tests.support.small_networks import island

NAME = HOSTILE[1]


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """Two launches, with the host before, between and after them."""
    return island(np.random.default_rng(5))


@pytest.fixture(scope="module")
def report(model: onnx.ModelProto) -> Inspection:
    return inspected(model)


def inspected(model: onnx.ModelProto) -> Inspection:
    return daedal.inspect(daedal.compile(model.SerializeToString(), "tiny"), time_host=False)


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with names of tensors and nodes that are no good text of a page."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    for node in made.graph.node:
        node.name = NAME + node.name
        for names in (node.input, node.output):
            names[:] = [NAME + name if name else name for name in names]
    for item in (*made.graph.input, *made.graph.output, *made.graph.initializer):
        item.name = NAME + item.name
    del made.graph.value_info[:]
    return made


def test_page_loads_nothing(report: Inspection) -> None:
    assert_complete(inspection_page(report, "island"))


def test_it_fits_a_screen(report: Inspection, browser: Browser) -> None:
    assert not browser.check(inspection_page(report, "island")).outside


def test_names_stay_text(model: onnx.ModelProto, report: Inspection) -> None:
    def shape(page: Reader) -> list[tuple[str, list[str]]]:
        return [(tag, sorted(attributes)) for tag, attributes in page.tags]

    hostile = Reader(inspection_page(inspected(renamed(model)), NAME))
    assert shape(hostile) == shape(Reader(inspection_page(report, "island")))
    assert any(NAME in word for word in hostile.words)


def test_the_picture_has_every_part_and_what_each_reads(report: Inspection) -> None:
    root = partition_chart(report).root
    texts = [element.text for element in root.iter("text")]
    assert texts[:2] == ["host", "accelerator"]
    titles = [f"part {number}" for number in range(len(report.parts))]
    assert all(any(title in (text or "") for text in texts) for title in titles)
    launch = report.launches[1]
    (place,) = (number for number, part in enumerate(report.parts) if part is launch)
    assert f"launch, part {place}: 1 layer, {launch.cycles:,} cycles" in texts
    # Inputs, parts and outputs follow each other in this network.
    lines = list(root.iter("line"))
    assert len(lines) == len(report.parts) + 1
    assert [float(line.get("y1") or 0) for line in lines] == sorted(
        float(line.get("y1") or 0) for line in lines
    )
    hints = [line[0].text for line in lines]
    assert launch.launch.inputs[0].name in hints


def test_times_are_shown_where_they_are_known(model: onnx.ModelProto, report: Inspection) -> None:
    artifact = report.artifact
    timed = partition_chart(daedal.inspect(artifact)).root
    bars = [element for element in timed.iter("rect") if element.get("class") == "busy"]
    assert len(bars) == len(report.parts)
    bars = [
        element
        for element in partition_chart(report).root.iter("rect")
        if element.get("class") == "busy"
    ]
    assert len(bars) == len(report.launches)
