"""The page of a tuning run: its figures, its drawings, and names that are not trusted."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from daedal.compiler.ops.space import Config
from daedal.compiler.tune.workload import Workload
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.reports.tuning_charts import contributions_chart, curve_chart
from daedal.reports.tuning_page import tuning_page
from daedal.runtime.bound import Bound
from daedal.tuning.explanation import Contribution, Explanation, KnobChange, UnitChange
from daedal.tuning.network import NetworkTuning, TaskResult
from daedal.tuning.selection import Selection
from daedal.tuning.target import NetworkCycles
from tests.support.browser import Browser

NAME = "conv<script>alert(1)</script>"
DEFAULT, BEST = Config.of(height=8, turns=0), Config.of(height=2, turns=0)
WORKLOAD = Workload.of("q_conv2d", attributes={}, shapes={}, layouts={})


def make_result(history: Sequence[int | None], bound: int | None = 700) -> TaskResult:
    best = min(cycles for cycles in history if cycles is not None)
    layers, default = (NAME, "other"), history[0]
    assert default is not None
    in_network = (1500, 1400)
    trials = len(history)
    return TaskResult(
        WORKLOAD, layers, default, best, bound, DEFAULT, BEST, trials, tuple(history), in_network
    )


def make_explanation() -> Explanation:
    return Explanation(
        NAME,
        DEFAULT,
        BEST,
        (1000, 800),
        (KnobChange("height", 8, 2, None),),
        (
            Contribution("beats", 100, 50, -0.15),
            Contribution("input_beats", 60, 40, -0.08),
            Contribution("instructions", 8, 16, 0.02),
        ),
        -0.01,
        -0.2,
        0.03,
        20,
        5,
        (UnitChange(Unit.GEMM, CycleClass.WAIT_LOAD, 300, 120),),
        (Bound.LOAD, Bound.GEMM),
        (("products", 64, 64),),
    )


def make_page(tuning: NetworkTuning) -> str:
    variant = load_variant("tiny")
    return tuning_page(tuning, name=NAME, variant=variant, memory="ddr", records="some.db")


def drawn(drawing: str, tag: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(drawing)
    return [element for element in root.iter(tag) if element.get("class") == kind]


@pytest.fixture
def tuning() -> NetworkTuning:
    results = (make_result([1000, None, 900, 950, 800, 5000]), make_result([100], None))
    counted = [NetworkCycles(total, {}) for total in (2500, 2200, 2200)]
    selection = Selection(counted[0], counted[1], {}, counted[2])
    return NetworkTuning(results, selection, 7, (make_explanation(),))


def test_it_fits_a_screen(tuning: NetworkTuning, browser: Browser) -> None:
    assert not browser.check(make_page(tuning)).outside


def test_the_page_tells_the_figures(tuning: NetworkTuning) -> None:
    page = make_page(tuning)
    for text in ("2,500", "2,200", "1.136x", "height 8 -&gt; 2", "14.3 %", "1.250x", "1,400"):
        assert text in page, text
    assert "GEMM waits 180 fewer cycles for LOAD" in page
    assert "bus words moved, in all" in page and "cycles in which GEMM waits for LOAD" in page
    assert "−1.0 % to features that are the same in both schedules" in page
    assert "limited by LOAD, or the bus by default, and by GEMM with the best schedule" in page
    assert page.count("<svg") == 2 + 2


def test_names_are_escaped_and_nothing_is_loaded(tuning: NetworkTuning) -> None:
    page = make_page(tuning)
    assert "<script" not in page and "conv&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=", page)
    depth: list[str] = []

    class Balanced(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                depth.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert depth.pop() == tag

    Balanced().feed(page)
    assert not depth


def test_an_interrupted_run_and_one_without_explanations_have_pages(tuning: NetworkTuning) -> None:
    page = make_page(NetworkTuning(tuning.results, None, 7))
    assert "the same command continues" in page and "Why" not in page


def test_the_curve_has_every_schedule_and_steps_down_at_the_best(tuning: NetworkTuning) -> None:
    text = curve_chart(tuning.results[0]).text()
    full, hollow = drawn(text, "circle", "point"), drawn(text, "circle", "once")
    assert (len(full), len(hollow)) == (3, 2)
    heights = [float(item.attrib["cy"]) for item in full]
    assert heights == sorted(heights), "fewer cycles are drawn lower"
    (line,) = drawn(text, "path", "roof")
    assert line.attrib["d"].count("V") == 2
    ends = [float(end) for end in re.findall(r"V([0-9.]+)", line.attrib["d"])]
    assert ends == pytest.approx(heights[1:], abs=0.1)
    # Default and bound.
    dashed = sorted(float(item.attrib["y1"]) for item in drawn(text, "line", "reuse"))
    assert dashed[0] == pytest.approx(heights[0]) and dashed[1] > heights[2]
    slow = next(item for item in hollow if "5,000" in "".join(item.itertext()))
    assert 0 < float(slow.attrib["cy"]) < heights[0], "it is drawn at the upper edge"


def test_contributions_point_left_for_fewer_cycles() -> None:
    text = contributions_chart(make_explanation().contributions).text()
    (more,) = drawn(text, "rect", "stall")
    fewer = drawn(text, "rect", "least")
    zero = float(more.attrib["x"])
    for item in fewer:
        assert float(item.attrib["x"]) + float(item.attrib["width"]) == pytest.approx(zero, abs=0.1)
    assert float(fewer[0].attrib["width"]) > float(fewer[1].attrib["width"])
