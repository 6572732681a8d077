"""What parameters buy, and areas by part, against what the models say of whole variants."""

from collections.abc import Sequence

import pytest

from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.clock import Clock
from daedal.codesign.results.prediction import Prediction, parameter_steps, prediction_from_json
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.variant_space import Point, VariantSpace
from daedal.hw.machine import machine_parts
from daedal.hw.synth.families import DEVICES, RESOURCES, Family
from daedal.isa.variant import load_variant

SPACE = VariantSpace(
    load_variant("ecp5"),
    {"wgt_bytes": (16_384, 32_768, 65_536), "alu_lanes": (1, 2, 4), "counters": (True, False)},
)


def estimate(points: Sequence[Point]) -> list[Evaluation | None]:
    """Cycles by lanes; nothing fits 16 KiB of weights."""
    found: list[Evaluation | None] = []
    for point in points:
        variant = SPACE.variant(point)
        assert variant is not None
        lut = DEVICES[Family.ECP5].lut * (0.1 + 0.02 * variant.units.alu_lanes)
        used = {"lut": lut, "ff": 0.0, "dsp": 0.0, "block_ram": 0.0}
        cycles = {"network": 1e6 / variant.units.alu_lanes}
        made = Evaluation(variant, Family.ECP5, Step.estimated, cycles, used, 100.0)
        found.append(made if variant.memory.wgt_bytes > 16_384 else None)
    return found


def test_steps_are_the_neighbours() -> None:
    steps = parameter_steps(SPACE, estimate, (1, 1, 0))
    found = {(step.parameter, step.after): (step.latency, step.area) for step in steps}
    assert found.keys() == {
        ("wgt_bytes", 16_384), ("wgt_bytes", 65_536), ("alu_lanes", 1), ("alu_lanes", 4),
        ("counters", False),
    }  # fmt: skip
    assert found["wgt_bytes", 16_384] == (None, None)
    assert found["wgt_bytes", 65_536] == (0.0, 0.0)
    assert found["alu_lanes", 1] == pytest.approx((1.0, -2.0))
    assert found["alu_lanes", 4] == pytest.approx((-0.5, 4.0))
    shares = {(step.parameter, step.after): step.shares for step in steps}
    assert shares["alu_lanes", 4]["lut"] == pytest.approx(18.0)
    assert shares["wgt_bytes", 16_384] == {}
    assert {step.before for step in steps if step.parameter == "alu_lanes"} == {2}
    assert parameter_steps(SPACE, estimate, (0, 1, 0)) == []


def test_predictions_are_read_back() -> None:
    steps = tuple(parameter_steps(SPACE, estimate, (1, 1, 0)))
    made = Prediction(Clock(80.0, 70.0, 90.0), {"gemm": {"lut": 5.0}}, steps)
    assert prediction_from_json(made.to_json()) == made


@pytest.mark.parametrize("counters", [True, False])
def test_parts_sum_to_the_variant(counters: bool) -> None:
    variant = load_variant("ecp5").replace(counters=counters)
    model = area_model(Family.ECP5)
    parts = model.by_part(variant)
    assert parts.keys() <= machine_parts(variant).keys()
    assert ("mark_recorder" in parts) == counters
    (whole,) = model([variant])
    for name in RESOURCES:
        assert sum(used[name] for used in parts.values()) == pytest.approx(whole[name])
