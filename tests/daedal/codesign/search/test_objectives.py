"""Limits: what place and route can use of a device, and those of the command line."""

import dataclasses

import pytest

from daedal.codesign.hardware.area import area_model
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.front_search import Goal
from daedal.codesign.search.objectives import USABLE, Limit, Objective, parse_limits
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import DEVICES, HARD_LIMIT, RESOURCES, Family
from daedal.isa.variant import Variant, load_variant

OBJECTIVES = (Objective.latency, Objective.area)
DEVICE = DEVICES[Family.ECP5]
SIZES = {name: getattr(DEVICE, name) for name in RESOURCES}
FEW = dict.fromkeys(RESOURCES, 10.0)


def evaluation(variant: Variant, resources: dict[str, float]) -> Evaluation:
    return Evaluation(variant, Family.ECP5, Step.counted, {"net": 1e6}, resources, 100.0)


def filled(**percent: float) -> Evaluation:
    used = {name: SIZES[name] * share / 100 for name, share in (FEW | percent).items()}
    return evaluation(load_variant("ecp5"), used)


def is_kept(item: Evaluation, *limits: str) -> bool:
    values = Goal(OBJECTIVES, parse_limits(limits), USABLE).values(item)
    return max(values) < float("inf")


def test_an_array_that_takes_most_multipliers_is_usable() -> None:
    variant = load_variant("ecp5")
    (resources,) = area_model(Family.ECP5)([variant])
    item = evaluation(variant, resources)
    assert item.value("dsp") > 85
    assert is_kept(item)


@pytest.mark.parametrize("name", RESOURCES)
def test_each_resource_has_its_own_limit(name: str) -> None:
    most = 100 * HARD_LIMIT if name in ("dsp", "block_ram") else 85.0
    assert is_kept(filled(**{name: most - 0.1}))
    assert not is_kept(filled(**{name: most + 0.1}))
    assert is_kept(filled(**{name: 40.0}), f"{name}=41")
    assert not is_kept(filled(**{name: 40.0}), f"{name}=39")
    # It replaces the device's.
    assert is_kept(filled(**{name: 99.0}), f"{name}=100")
    assert not is_kept(filled(**{name: 99.0, "lut": 90.0, "dsp": 99.0}), f"{name}=100")


def test_without_other_limits_the_whole_device_is_usable() -> None:
    assert max(Goal(OBJECTIVES).values(filled(lut=99.9))) < float("inf")
    assert Goal(OBJECTIVES).values(filled(lut=100.1)) == [float("inf")] * 2


def test_limits_are_read() -> None:
    found = parse_limits(["latency=1.5", "block_ram=75"])
    assert found == (Limit("latency", 1.5), Limit("block_ram", 75.0))
    assert [str(limit) for limit in found] == ["latency=1.5", "block_ram=75"]


def test_values_are_percent_of_the_device() -> None:
    item = dataclasses.replace(filled(), resources={**filled().resources, "block_ram": 52.0})
    assert item.value("block_ram") == 25.0
    assert item.value(Objective.area) == 25.0


def test_the_host_is_in_the_latency() -> None:
    """1e6 cycles at 100 MHz, and what the host takes."""
    assert filled().value(Objective.latency) == pytest.approx(10.0)
    item = dataclasses.replace(filled(), host_ms={"net": 3.0})
    assert item.value(Objective.latency) == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["bram=3"], "limits are for latency, area, energy, dsp, block_ram, lut, ff"),
        (["lut"], "a limit is an objective and a number above 0"),
        (["lut=101"], "a limit of lut is at most 100 percent of the device, not 101"),
        (["area=1000"], "a limit of area is at most 100 percent"),
        (["lut=50", "lut=60"], "each limit is given once, not that of lut twice"),
    ],
)
def test_limits_that_cannot_be(texts: list[str], words: str) -> None:
    with pytest.raises(ExploreError, match=words):
        parse_limits(texts)
