"""Evaluations: composed of estimates, and no program is counted twice."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from daedal.codesign.counting import Cycles, Network
from daedal.codesign.evaluation import Evaluation, Step, from_json
from daedal.codesign.evaluator import Evaluator
from daedal.codesign.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.hw.synth.families import Family
from daedal.isa.variant import Variant, load_variant

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"
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
        for style in ("packed", "dsp", "lut")
        if (point := SPACE.point(base.replace(multiplier_style=style))) is not None
    ]
    points += [p for p in [SPACE.point(base.replace(inp_bytes=8192))] if p is not None]
    assert len(points) == 4
    asked: list[Variant] = []

    def counter(variants: Sequence[Variant]) -> Iterator[tuple[int, Cycles | None]]:
        asked.extend(variants)
        for number in reversed(range(len(variants))):
            small = variants[number].memory.inp_bytes == 8192
            yield number, None if small else {"digits": 7000}

    tried = evaluator()
    found: dict[object, Evaluation | None] = dict(tried.count(points, counter))
    assert len(asked) == 2
    assert list(found) != [] and set(found) == set(points)
    assert found[points[3]] is None
    for point in points[:3]:
        item = found[point]
        assert item is not None
        assert (item.step, item.cycles) == (Step.counted, {"digits": 7000.0})
        assert item.variant == SPACE.variant(point)
    list(tried.count(points, counter))
    assert len(asked) == 2
    later = evaluator()
    later.learn(found.values())
    list(later.count(points[:3], counter))
    assert len(asked) == 2
