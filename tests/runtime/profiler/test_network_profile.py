"""The document that all views start from: sums, and machines that cannot be profiled."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import UserError
from daedal.isa.profile import Profile
from daedal.runtime.profiler.network_profile import network_profile
from tests.support.profiles import random_launch


@given(seed=st.integers(0, 2**32 - 1))
def test_layers_and_tail_are_the_launch(seed: int) -> None:
    profile = random_launch(np.random.default_rng(seed)).profile()
    assert sum(item.cycles for item in profile.layers) + profile.tail_cycles == profile.cycles
    assert profile.tail_cycles >= 0
    assert all(counters.cycles == profile.cycles for counters in profile.units.values())
    assert profile.macs == sum(item.layer.macs for item in profile.layers)
    for item in profile.layers:
        assert item.roofline_cycles == max(item.layer.macs / 64, item.layer.bytes_once / 8)


def test_a_device_without_time() -> None:
    artifact = random_launch(np.random.default_rng(1)).artifact
    with pytest.raises(UserError, match="needs a device that counts cycles, not 'functional'"):
        network_profile(artifact, [Profile("functional")], memory="ddr")


def test_a_machine_without_counters() -> None:
    launch = random_launch(np.random.default_rng(2))
    bare = dataclasses.replace(launch.plain, marks=())
    with pytest.raises(UserError, match=r"not variant 'tiny'; compile for .* units\.counters"):
        network_profile(launch.artifact, [bare], memory="ddr")
