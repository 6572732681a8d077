"""The charts: what is drawn of each layer, and how long."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.layer_charts import cycles_chart
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.roofline_chart import roofline_chart
from daedal.runtime.profiler.svg import Drawing, standalone
from daedal.runtime.profiler.timeline_chart import timeline_chart
from tests.support.profiles import random_launch


@pytest.fixture(scope="module")
def profile() -> NetworkProfile:
    return random_launch(np.random.default_rng(12)).profile()


def bars(drawing: Drawing, kind: str) -> list[float]:
    root = ElementTree.fromstring(drawing.text())
    return [float(item.attrib["width"]) for item in root.iter("rect") if item.get("class") == kind]


def test_a_bar_of_cycles_is_coloured_up_to_the_roofline(profile: NetworkProfile) -> None:
    drawing = cycles_chart(profile)
    cycles = np.array([layer.cycles for layer in profile.layers])
    least = np.array([min(layer.roofline_cycles, layer.cycles) for layer in profile.layers])
    longest = max(bars(drawing, "excess"))
    np.testing.assert_allclose(bars(drawing, "excess"), cycles / cycles.max() * longest, atol=0.01)
    np.testing.assert_allclose(bars(drawing, "least"), least / cycles.max() * longest, atol=0.01)


@pytest.mark.parametrize(
    "lacking",
    [
        lambda item: replace(item, layer=replace(item.layer, macs=0)),
        lambda item: replace(item, layer=replace(item.layer, bytes_once=0)),
        lambda item: replace(item, bytes_read=0, bytes_written=0),
        lambda item: replace(item, cycles=0),
    ],
    ids=["multiplications", "bytes", "transfers", "cycles"],
)
def test_a_layer_without_a_rate_or_a_reuse_has_no_point(profile: NetworkProfile, lacking) -> None:
    layers = (lacking(profile.layers[0]), *profile.layers[1:])
    root = ElementTree.fromstring(roofline_chart(replace(profile, layers=layers)).text())
    points = [item for item in root.iter("circle") if item.get("class") == "point"]
    assert len(points) == len(layers) - 1


def test_points_that_overlap_share_their_numbers(profile: NetworkProfile) -> None:
    """Not those that lie above each other, or side by side."""
    layer = profile.layers[0]
    below = replace(layer, cycles=8 * layer.cycles)
    beside = replace(layer, bytes_read=64 * (layer.bytes_read + layer.bytes_written))
    drawing = roofline_chart(replace(profile, layers=(layer, layer, below, beside)))
    texts = ElementTree.fromstring(drawing.text()).iter("text")
    numbers = [item.text for item in texts if item.get("class") == "strong middle"]
    assert numbers == ["1, 2", "3", "4"]


def test_a_drawing_of_its_own_has_a_margin_all_around() -> None:
    root = ElementTree.fromstring(standalone(Drawing(100, 50, "title")))
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert left == top < 0
    assert (width, height) == (100 - 2 * left, 50 - 2 * top)
    ground = root[1]
    assert [float(ground.attrib[name]) for name in ("x", "y", "width", "height")] == [
        left,
        top,
        width,
        height,
    ]


def test_a_layer_s_name_fills_its_place_in_the_timeline() -> None:
    """As many letters as the bar has room for, and one at least."""
    names = ["a_rather_long_name_of_a_layer_that_is_cut_somewhere_in_its_middle"] * 2
    profile = random_launch(np.random.default_rng(3), names=names).profile()
    assert profile.timeline is not None
    root = ElementTree.fromstring(timeline_chart(profile, 0, profile.cycles).text())
    texts = [item.text or "" for item in root.iter("text")]
    titles = ["layer", *(unit.name for unit in LAYER_UNITS)]
    assert set(titles) <= set(texts)
    shown = [text for text in texts if text.startswith("a_")]
    assert shown and all(len(text) > 10 for text in shown)
