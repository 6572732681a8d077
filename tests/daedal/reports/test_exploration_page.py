"""The page of a search: its figures, its drawing, and names that are not trusted."""

import dataclasses
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import daedal
from daedal.codesign.exploration import Exploration
from daedal.codesign.hardware.clock import Clock
from daedal.codesign.results.prediction import ParameterStep, Prediction
from daedal.codesign.results.verify import Verified
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.front_search import Goal
from daedal.codesign.search.objectives import Limit, Objective
from daedal.hw.synth.families import DEVICES, Family
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant
from daedal.reports.exploration_charts import front_chart
from daedal.reports.exploration_page import PointDetails, exploration_page
from daedal.runtime.profiler.measure import measure
from daedal.sim.timing.device import TimingDevice
from tests.support.browser import Browser

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"
NAME = "net<script>alert(1)</script>"
GOAL = Goal((Objective.latency, Objective.area), (Limit("area", 50.0), Limit("block_ram", 75.0)))
CLOCK = Clock(80.0, 70.0, 90.0)


def made(name: str, cycles: int, percent: float) -> Evaluation:
    lut = percent / 100 * DEVICES[Family.ECP5].lut
    used = {"lut": lut, "ff": 1_000.0, "dsp": 3.0, "block_ram": 4.0}
    variant = load_variant("tiny").replace(name=name)
    return Evaluation(variant, Family.ECP5, Step.counted, {NAME: float(cycles)}, used, 80.0)


FRONT = (made("fast", 80_000, 40.0), made("middle", 160_000, 20.0), made("small", 800_000, 10.0))
OTHERS = (made("worse", 400_000, 30.0), made("worst", 900_000, 45.0))


def verified(mhz: float | None) -> Verified:
    used = {"lut": (16_728.0, 8_364.0), "ff": (1_000.0, 1_000.0), "dsp": (3.0, 3.0)}
    resources = {**used, "block_ram": (4.0, 4.0)}
    return Verified("middle", {NAME: (160_000, 160_000)}, resources, CLOCK, mhz)


@pytest.fixture(scope="module")
def details() -> PointDetails:
    artifact = daedal.compile(DIGITS, "tiny")
    device = TimingDevice(artifact.variant, timing=PRESETS["ddr"])
    profile = measure(artifact, device, memory="ddr", name=NAME)
    units = {
        "alu<b>": {"lut": 1_234.4, "ff": 100.0, "dsp": -0.3, "block_ram": 0.0},
        "gemm": {"lut": 9_876.6, "ff": 200.0, "dsp": 3.0, "block_ram": 0.0},
    }
    steps = (
        ParameterStep("alu_lanes", 2, 1, 0.25, -1.5),
        ParameterStep("alu_lanes", 2, 4, -0.125, 13.0, None, {"block_ram": 60.0}),
        ParameterStep("acc_banks", 2, 4, -0.01, 1.0, None, {"block_ram": 76.0}),
        ParameterStep("wgt_bytes", 65_536, 32_768, None, None),
        ParameterStep("counters", True, False, 0.0, -0.04),
    )
    return PointDetails(
        Prediction(CLOCK, units, steps), {NAME: profile}, {NAME: profile.cycles // 2}
    )


def page(details: PointDetails, *measured: Verified, interrupted: bool = False) -> str:
    found = Exploration(FRONT, (*OTHERS, *FRONT), 5, 1, 1_728, 60.0, interrupted, Path(), GOAL)
    known = None if interrupted else details
    return exploration_page(found, [known] * 3, measured)


def drawn(drawing: str, tag: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(drawing)
    return [element for element in root.iter(tag) if element.get("class") == kind]


def at(element: ElementTree.Element) -> tuple[float, float]:
    return float(element.attrib["cx"]), float(element.attrib["cy"])


def test_the_page_tells_the_figures(details: PointDetails) -> None:
    text = page(details)
    assert "least latency and area, with area at most 50 %, block RAM at most 75 %" in text
    for figure in ("1,728", "80,000", "<b>3</b>on the Pareto", "70 to 90", "33,456 (40%)"):
        assert figure in text, figure
    rows = re.sub(r"<[^>]+>", "|", text.replace("\n", ""))
    for row in (
        "|alu_lanes||2||1||+25.0 %||−1.5|",
        "|||||4||−12.5 %||+13.0|",
        "|wgt_bytes||65,536||32,768||does not fit|||",
        "|counters||yes||no||0.0 %||0.0|",
    ):
        assert row in rows, row
    assert text.count("<details") == 3 and text.count("<details open") == 1
    # The front's; layers and area of each point.
    assert text.count("<svg") == 1 + 3 * 2
    assert "1,234 LUT" in text and "-0" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    assert text.index(">gemm<") < text.index(">alu&lt;b&gt;<"), "the largest part is first"
    assert "Predicted against measured" not in text
    layer = next(iter(details.profiles.values())).layers[0]
    assert f"{layer.cycles:,} cycles" in text and f"bound by {layer.bound.value}" in text


def test_measurements_are_told(details: PointDetails) -> None:
    rows = re.sub(r"<[^>]+>", "|", page(details, verified(85.0)))
    assert "|middle||LUT||16,728||8,364||-50.0 %|" in rows
    assert "|middle||MHz||80.0 (70.0 to 90.0)||85.0||inside|" in rows


def test_names_are_escaped_and_nothing_is_loaded(details: PointDetails) -> None:
    text = page(details, verified(85.0))
    assert "<script" not in text and "net&lt;script&gt;" in text
    assert "default-src 'none'" in text
    assert not re.search(r"src=|href=(?!\"#point-)", text), "links stay on the page"
    depth: list[str] = []

    class Balanced(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                depth.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert depth.pop() == tag

    Balanced().feed(text)
    assert not depth


def test_the_plot_and_the_tables_lead_to_the_points(details: PointDetails) -> None:
    text = page(details)
    for number in (1, 2, 3):
        assert text.count(f'href="#point-{number}"') == 2
        assert text.count(f'id="point-{number}"') == 1


def test_in_a_browser_links_open_the_points(details: PointDetails, browser: Browser) -> None:
    text = page(details, verified(85.0))
    look = browser.check(text)
    links = [text for tag, text in look.focused if tag == "a"]
    assert links[-3:] == ["fast", "middle", "small"] and len(links) == 6
    with browser.opened(text) as (shown, _):
        assert not shown.locator("details").nth(2).evaluate("e => e.open")
        shown.locator('svg a[href="#point-3"]').click()
        assert shown.locator("details").nth(2).evaluate("e => e.open")
        assert shown.locator("#point-3").evaluate("e => e.getBoundingClientRect().top") < 900


def test_parameters_that_differ_are_side_by_side(details: PointDetails) -> None:
    lanes = [
        dataclasses.replace(item, variant=item.variant.replace(alu_lanes=lanes))
        for item, lanes in zip(FRONT, (4, 2, 2), strict=True)
    ]
    found = Exploration(lanes, lanes, 5, 1, 1_728, 60.0, False, Path(), GOAL)
    rows = re.sub(r"<[^>]+>", "|", exploration_page(found, [details] * 3).replace("\n", ""))
    assert "|units.alu_lanes||4||2||2|" in rows and "units.requantize_lanes" not in rows
    assert "Parameters that differ" not in page(details)


def test_neighbours_that_break_a_limit_say_which(details: PointDetails) -> None:
    rows = re.sub(r"<[^>]+>", "|", page(details).replace("\n", ""))
    assert "|alu_lanes||2||1||+25.0 %||−1.5|||" in rows
    assert rows.count("|area at most 50 %|") == 1, "that of the largest point alone"
    assert rows.count("|block RAM at most 75 %|") == 3


def test_an_interrupted_search_has_a_page(details: PointDetails) -> None:
    text = page(details, interrupted=True)
    assert "the same command continues" in text
    assert text.count("details are not there yet") == 3
    found = Exploration((), (), 0, 0, 48, 1.0, True, Path(), GOAL)
    assert "<svg" not in exploration_page(found, [])


def test_the_plot_has_every_variant_where_it_belongs() -> None:
    text = front_chart(FRONT, OTHERS).text()
    full, hollow = drawn(text, "circle", "point"), drawn(text, "circle", "once")
    assert (len(full), len(hollow)) == (3, 2)
    (fast, middle, small), (worse, worst) = map(at, full), map(at, hollow)
    assert fast[0] < middle[0] < worse[0] < small[0] < worst[0], "slower is to the right"
    assert worst[1] < fast[1] < worse[1] < middle[1] < small[1], "larger is higher"
    # Both axes are logarithmic: the same ratio is the same distance.
    assert middle[1] - fast[1] == pytest.approx(small[1] - middle[1], abs=0.1)
    assert (small[0] - fast[0]) / (middle[0] - fast[0]) == pytest.approx(3.3219, rel=0.01)
    (stairs,) = drawn(text, "path", "roof")
    assert stairs.attrib["d"].count("V") == 2
    hint = "".join(full[0].itertext())
    assert hint.startswith("fast, ") and "1 ms, 40.0 % of the device" in hint
    assert f"{NAME} 80,000 cycles" in hint and "33,456 LUT" in hint


def test_measured_points_are_where_they_were_measured() -> None:
    text = front_chart(FRONT, OTHERS, [verified(160.0)]).text()
    (mark,) = drawn(text, "circle", "stall")
    fast, middle, small = map(at, drawn(text, "circle", "point"))
    # Twice the clock and half the area: the latency of `fast` and the area of `small`.
    assert at(mark) == pytest.approx((fast[0], small[1]), abs=0.1)
    (line,) = drawn(text, "line", "reuse")
    ends = [float(line.attrib[name]) for name in ("x1", "y1", "x2", "y2")]
    assert ends == pytest.approx([*middle, *at(mark)], abs=0.1)
    assert not drawn(front_chart(FRONT, OTHERS, [verified(None)]).text(), "circle", "stall")


def test_a_single_point_can_be_drawn() -> None:
    text = front_chart(FRONT[:1], []).text()
    (only,) = drawn(text, "circle", "point")
    assert at(only) == pytest.approx(((56 + 930) / 2, (16 + 376) / 2), abs=0.1)
    assert 3 <= len(drawn(text, "text", "soft middle")) <= 9


@pytest.mark.parametrize("span", [1.01, 1.3, 2.0, 5.0, 8.0, 30.0, 1e4])
def test_axes_have_round_ticks(span: float) -> None:
    fast, small = made("fast", 80_000, 20.0), made("small", round(80_000 * span), 10.0)
    text = front_chart([fast, small], []).text()
    ticks = drawn(text, "text", "soft middle")
    values = [float(item.text or "") for item in ticks]
    assert 3 <= len(values) <= 9 and values == sorted(set(values))
    # The points tell where a value is.
    (left, _), (right, _) = map(at, drawn(text, "circle", "point"))
    for value, item in zip(values, ticks, strict=True):
        share = math.log(value) / math.log(span)
        assert float(item.attrib["x"]) == pytest.approx(left + share * (right - left), abs=1)
