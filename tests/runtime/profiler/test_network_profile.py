"""The document that all views start from: sums, and machines that cannot be profiled."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import UserError
from daedal.isa.profile import Profile
from daedal.isa.registers import COUNTER_BITS
from daedal.runtime.profiler.network_profile import network_profile
from tests.support.profiles import counters, random_launch


@given(seed=st.integers(0, 2**32 - 1))
def test_layers_and_tail_are_the_launch(seed: int) -> None:
    profile = random_launch(np.random.default_rng(seed)).profile()
    assert sum(item.cycles for item in profile.layers) + profile.tail_cycles == profile.cycles
    assert profile.tail_cycles >= 0
    assert all(counters.cycles == profile.cycles for counters in profile.units.values())
    assert profile.macs == sum(item.layer.macs for item in profile.layers)
    for item in profile.layers:
        needed = min(item.layer.bytes_once, item.bytes_moved)
        assert item.roofline_cycles == max(item.layer.macs / 64, needed / 8)
        assert item.roofline_share <= 1
    assert profile.roofline_share <= 1


def test_a_device_without_time() -> None:
    artifact = random_launch(np.random.default_rng(1)).artifact
    with pytest.raises(UserError, match="needs a device that counts cycles, not 'functional'"):
        network_profile(artifact, [Profile("functional")], memory="ddr")


def test_a_machine_without_counters() -> None:
    launch = random_launch(np.random.default_rng(2))
    for units in (launch.plain.units, {}):
        bare = dataclasses.replace(launch.plain, units=units, marks=())
        with pytest.raises(UserError, match=r"not variant 'tiny'; compile for .* units\.counters"):
            network_profile(launch.artifact, [bare], memory="ddr")


def test_a_long_run_on_a_device_whose_counters_do_not_wrap() -> None:
    launch = random_launch(np.random.default_rng(3))
    cycles = 1 << COUNTER_BITS
    idle = counters(idle=cycles - (launch.plain.cycles or 0))
    units = {unit: item.plus(idle) for unit, item in launch.plain.units.items()}
    long = dataclasses.replace(launch.plain, cycles=cycles, units=units)
    profile = network_profile(launch.artifact, [long], memory="ddr")
    assert profile.cycles == cycles
    assert profile.layers == launch.profile(with_timeline=False).layers
