"""Evaluations: composed of estimates, and no program is counted twice."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from daedal.codesign.cycles.counting import Network, count_network, count_networks
from daedal.codesign.cycles.work import Counts
from daedal.codesign.search.evaluation import Evaluation, Step, from_json
from daedal.codesign.search.evaluator import Evaluator
from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS, Point, VariantSpace
from daedal.hw.synth.families import Family
from daedal.isa.variant import Variant, load_variant

DIGITS = Path(__file__).parents[4] / "examples" / "digits" / "digits_qdq.onnx"
SPACE = VariantSpace(load_variant("ecp5"), DEFAULT_PARAMETERS)


def evaluator() -> Evaluator:
    return Evaluator(SPACE, {"digits": Network(DIGITS.read_bytes())}, Family.ECP5, mhz=100.0)


def test_an_estimate_is_composed() -> None:
    point = SPACE.point(load_variant("ecp5"))
    assert point is not None
    (found,) = evaluator().estimate([point])
    assert found is not None
    assert found.step is Step.estimated
    assert found.cycles["digits"] > 1000
    assert found.resources["dsp"] > 64  # the array's, and the ALU's
    assert found.mhz == 100.0
    assert from_json(found.to_json()) == found


def test_programs_that_are_the_same_are_counted_once() -> None:
    base = load_variant("ecp5")
    points = [
        point
        for settings in ({}, {"multiplier_style": "lut"})
        if (point := SPACE.point(base.replace(None, **settings))) is not None
    ]
    points += [p for p in [SPACE.point(base.replace(inp_bytes=8192))] if p is not None]
    assert len(points) == 3
    asked: list[Variant] = []

    def counter(variants: Sequence[Variant]) -> Iterator[tuple[int, Counts | None]]:
        asked.extend(variants)
        for number in reversed(range(len(variants))):
            small = variants[number].memory.inp_bytes == 8192
            yield number, None if small else Counts({"digits": 7000.0})

    tried = evaluator()
    found: dict[Point, Evaluation | None] = dict(tried.count(points, counter))
    assert len(asked) == 2
    assert list(found) != [] and set(found) == set(points)
    assert found[points[2]] is None
    for point in points[:2]:
        item = found[point]
        assert item is not None
        assert (item.step, item.cycles) == (Step.counted, {"digits": 7000.0})
        assert item.variant == SPACE.variant(point)
    list(tried.count(points, counter))
    assert len(asked) == 2
    # Multipliers of another latency; no marks are written.
    for settings in ({"multiplier_style": "dsp"}, {"counters": False}):
        other = SPACE.point(base.replace(None, **settings))
        assert other is not None
        list(tried.count([other], counter))
    assert len(asked) == 4
    later = evaluator()
    later.learn(found)
    list(later.count(points, counter))
    assert len(asked) == 4


@pytest.mark.parametrize("name", ["ecp5", "tiny"])
def test_programs_that_are_the_same_take_the_same_cycles(name: str) -> None:
    """On the cycle model: what is counted once for several variants holds for each."""
    base = load_variant(name)
    space = VariantSpace(base, {"multiplier_style": ("packed", "dsp", "lut"), "counters": (0, 1)})
    points = [(style, counters) for style in range(3) for counters in range(2)]
    network = Network(DIGITS.read_bytes())
    tried = Evaluator(space, {"digits": network}, Family.ECP5, mhz=100.0)

    def counter(variants: Sequence[Variant]) -> Iterator[tuple[int, Counts | None]]:
        for number, variant in enumerate(variants):
            yield number, count_networks({"digits": network}, variant, "ddr")

    cycles = set()
    for point, item in tried.count(points, counter):
        variant = space.variant(point)
        assert item is not None and variant is not None
        assert item.cycles["digits"] == count_network(network.model, variant, "ddr"), variant.name
        cycles.add(item.cycles["digits"])
    assert len(cycles) == 4
