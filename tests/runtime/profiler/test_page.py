"""The page: complete in itself, sums that hold, and names of models that stay text."""

import json
from typing import Any
from xml.etree import ElementTree

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.registers import CLASSES
from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.layer_charts import cycles_chart, units_chart
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.page import profile_page
from daedal.runtime.profiler.roofline_chart import roofline_chart
from daedal.runtime.profiler.svg import clip_text, standalone
from tests.support.browser import Browser
from tests.support.page_reader import HOSTILE, Reader, assert_complete
from tests.support.profiles import random_launch


def made(seed: int = 5, names: list[str] | None = None) -> NetworkProfile:
    return random_launch(np.random.default_rng(seed), names=names).profile("made")


def test_page_loads_nothing() -> None:
    assert_complete(profile_page(made()))


def test_it_fits_a_screen_and_the_keyboard_moves_its_timeline(browser: Browser) -> None:
    text = profile_page(made())
    look = browser.check(text)
    assert [tag for tag, _ in look.focused].count("canvas") == 1
    assert [text for tag, text in look.focused if tag == "button"] == ["+", "−", "all"]
    with browser.opened(text) as (page, messages):
        page.focus("canvas")
        before = page.screenshot()
        page.keyboard.press("+")
        assert page.screenshot() != before, "a part of the launch, larger"
        assert not messages


def test_names_of_models_stay_text() -> None:
    """The tags and attributes are those of the same page with harmless names."""
    hostile = Reader(profile_page(made(6, HOSTILE)))
    harmless = Reader(profile_page(made(6, list("abcde"))))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in harmless.tags]
    assert [set(a) for _, a in hostile.tags] == [set(a) for _, a in harmless.tags]
    assert len(hostile.scripts) == 2
    data = json.loads(hostile.scripts[0])
    assert [name for name, _, _ in data["layers"]] == HOSTILE
    text = "".join(hostile.words)
    assert all(name in text for name in HOSTILE)


@given(seed=st.integers(0, 2**32 - 1))
def test_numbers_of_the_page(seed: int) -> None:
    """The timeline's rows cover each unit's cycles up to its last instruction; layers touch."""
    profile = made(seed)
    assert profile.timeline is not None
    page = Reader(profile_page(profile))
    data: dict[str, Any] = json.loads(page.scripts[0])
    first_class = 4
    for unit, lane in zip(LAYER_UNITS, data["lanes"], strict=True):
        assert lane["unit"] == unit.name
        at = 0
        for row in lane["rows"]:
            assert row[0] == at
            assert len(row) - first_class == len(data["kinds"]) == len(data["titles"])
            at += sum(row[first_class:])
        intervals = profile.timeline.lane(unit)
        assert at == (intervals[-1].end if intervals else 0)
    last = 0
    for _, begin, end in data["layers"]:
        assert begin == last
        last = end
    assert len(data["kinds"]) == len(CLASSES)


def test_bytes_of_layers_are_a_part_of_those_over_the_bus() -> None:
    profile = made()
    page = profile_page(profile)
    moved = sum(layer.bytes_moved for layer in profile.layers)
    whole = (profile.beats_read + profile.beats_written) * profile.conditions.bus_bytes
    assert f"<b>{whole:,} B</b>over the bus" in page
    assert f"<b>{moved:,} B</b>of them moved by layers" in page


def test_no_timeline_no_script() -> None:
    profile = random_launch(np.random.default_rng(7)).profile(with_timeline=False)
    assert Reader(profile_page(profile)).scripts == []


@given(seed=st.integers(0, 2**32 - 1))
def test_bars_of_a_unit_fill_their_room(seed: int) -> None:
    """Shares of a unit's cycles for a layer sum to the same width for all that did anything."""
    profile = made(seed)
    root = ElementTree.fromstring(units_chart(profile).text())
    widths: dict[tuple[str, str], float] = {}
    for rect in root.iter("rect"):
        title = rect.find("title")
        if title is None:  # of the legend
            continue
        assert title.text is not None
        name, unit = title.text.split(":")[0].split(", ")
        widths[name, unit] = widths.get((name, unit), 0.0) + float(rect.attrib["width"])
    worked = {
        (layer.layer.name, unit.name)
        for layer in profile.layers
        for unit in LAYER_UNITS
        if layer.units[unit].cycles
    }
    assert set(widths) == worked
    assert max(widths.values()) - min(widths.values()) < 0.1


@given(seed=st.integers(0, 2**32 - 1))
def test_everything_is_drawn_inside(seed: int) -> None:
    profile = made(seed)
    for drawing in (roofline_chart(profile), cycles_chart(profile), units_chart(profile)):
        root = ElementTree.fromstring(drawing.text())
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for element in root.iter():
            for name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(element.get(name, 0)) <= width
            for name in ("y", "y1", "y2", "cy"):
                assert 0 <= float(element.get(name, 0)) <= height


@given(seed=st.integers(0, 2**32 - 1))
def test_points_lie_under_the_roof(seed: int) -> None:
    """Filled and hollow ones, also where a layer takes fewer cycles than array and bus."""
    profile = made(seed)
    drawing = roofline_chart(profile)
    root = ElementTree.fromstring(drawing.text())
    multiplying = [item for item in profile.layers if item.layer.macs and item.bytes_moved]
    points = [item for item in root.iter("circle") if item.get("class") == "point"]
    assert len(points) == len(multiplying)
    rates = [item.rate for item in multiplying]
    heights = [float(item.attrib["cy"]) for item in points]
    assert all(
        heights[one] <= heights[other]
        for one, rate in enumerate(rates)
        for other, lower in enumerate(rates)
        if rate > 1.01 * lower
    )
    for item in multiplying:
        assert item.rate <= item.macs_per_cycle
        assert item.rate <= item.reuse * item.bus_bytes * (1 + 1e-9)
    (roof,) = (item for item in root.iter("polyline") if item.get("class") == "roof")
    corners = [tuple(map(float, pair.split(","))) for pair in roof.attrib["points"].split()]
    xs, ys = zip(*corners, strict=True)
    for item in root.iter("circle"):
        # The slope is a line in this drawing, as both axes are logarithmic.
        height = np.interp(float(item.attrib["cx"]), xs, ys)
        assert float(item.attrib["cy"]) >= height - 0.5


def test_drawings_of_their_own() -> None:
    text = standalone(roofline_chart(made()))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text and root.attrib["width"] == "744"


def test_long_names_keep_both_ends() -> None:
    assert clip_text("short", 26) == "short"
    clipped = clip_text("features.0.block.3.convolution.7", 16)
    assert clipped == "features…ution.7" and len(clipped) == 16
