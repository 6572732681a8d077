"""`ConvSpace.bound`: no configuration takes fewer cycles, and no unit does less work."""

from typing import Any

import numpy as np
import pytest

from daedal.compiler.ops.accelerator.conv.bound import ConvBound
from daedal.compiler.ops.accelerator.conv.space import ConvSpace, columns_of_tiles
from daedal.compiler.ops.accelerator.depthwise.bound import DepthwiseBound
from daedal.compiler.ops.accelerator.depthwise.space import DepthwiseSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.lower_bound import Work
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import PRESETS
from daedal.isa.profile import Profile
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant
from daedal.tuning.layer_runner import LayerRunner
from tests.support.conv_nodes import conv_layer

LAYERS: dict[str, dict[str, Any]] = {
    "padded with zero": {"zero_point": 0},
    "padded with another value": {"zero_point": 3},
    "stride 2": {"stride": 2, "zero_point": 0},
    "1x1, stride 2": {"kernel": 1, "pad": 0, "stride": 2, "channels": (16, 32)},
    "dilated": {"dilation": 3, "pad": 3, "zero_point": 0},
    "5x5": {"kernel": 5, "pad": 2, "size": 9, "zero_point": 0},
    "two groups": {"group": 2, "channels": (16, 32)},
    "fragmented channels": {"channels": (20, 40), "size": 7},
}


@pytest.mark.parametrize(
    ("variant", "memory"),
    [
        ("tiny", "ddr"),
        pytest.param("tiny", "ideal", marks=pytest.mark.slow),
        pytest.param("vta", "ddr", marks=pytest.mark.slow),
        pytest.param("wide", "slow", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_undercuts_the_bound(
    variant: str, layer: str, memory: str, rng: np.random.Generator
) -> None:
    machine = load_variant(variant)
    graph, node = conv_layer(machine, **LAYERS[layer])
    space = any_space_of(graph, node, machine)
    assert isinstance(space, ConvSpace)
    runner = LayerRunner(graph, node, machine, memory)
    for config in [space.default, *space.sample(rng, 4)]:
        profile = runner.profile(config)
        assert profile is not None, config
        (bound,) = space.bound(space.table([config]), PRESETS[memory])
        assert profile.cycles is not None
        assert bound <= profile.cycles, config
        _check_work(space, config, profile)


def test_steps_with_operands_on_chip_are_one_instruction() -> None:
    machine = load_variant("tiny")
    graph, node = conv_layer(machine, channels=(64, 32), size=4, kernel=1, pad=0)
    space = any_space_of(graph, node, machine)
    assert isinstance(space, ConvSpace)
    joined = [
        config
        for config in space.enumerate()
        if config["keep_inputs"]
        and config["turns"]
        and config["in_blocks"] == 1
        # So many small tiles that other instructions do not outnumber the steps.
        and config["height"] == config["width"] == config["out_blocks"] == 1
    ]
    runner = LayerRunner(graph, node, machine)
    for config in joined:
        profile = runner.profile(config)
        assert profile is not None
        _check_work(space, config, profile)
    assert joined


def _check_work(space: ConvSpace, config: Config, profile: Profile) -> None:
    """Each amount of work against the machine's counters."""
    table = space.table([config])
    work = ConvBound(space.shape_of(config), space.variant).work(columns_of_tiles(table))
    _check_units(work, profile, space.variant, config)


def _check_units(work: Work, profile: Profile, variant: Variant, config: Config) -> None:
    bus = variant.bus_bytes
    assert work.products[0] <= profile.units[Unit.GEMM].classes[CycleClass.BUSY], config
    assert work.vectors[0] <= profile.units[Unit.ALU].classes[CycleClass.BUSY], config
    assert work.read[0] <= profile.beats_read * bus, config
    assert work.written[0] <= profile.beats_written * bus, config
    assert work.instructions[0] <= profile.units[Unit.FETCH].work, config


@pytest.mark.parametrize("memory", ["ddr", "ideal", "ulx3s"])
@pytest.mark.parametrize("layer", ["padded with zero", "stride 2", "5x5"])
def test_no_unit_of_a_depthwise_convolution_does_less(
    layer: str, memory: str, rng: np.random.Generator
) -> None:
    machine = load_variant("tiny")
    options = {**LAYERS[layer], "channels": (16, 16), "group": 16}
    graph, node = conv_layer(machine, **options)
    space = any_space_of(graph, node, machine)
    assert isinstance(space, DepthwiseSpace)
    runner = LayerRunner(graph, node, machine, memory)
    for config in [space.default, *space.sample(rng, 4)]:
        profile = runner.profile(config)
        assert profile is not None and profile.cycles is not None, config
        (bound,) = space.bound(space.table([config]), PRESETS[memory])
        assert bound <= profile.cycles, config
        work = DepthwiseBound(space.shape, machine).work(space.table([config]))
        _check_units(work, profile, machine, config)


def test_the_bound_is_near_for_the_default() -> None:
    """A bound that is always 0 would pass the test above."""
    machine = load_variant("tiny")
    graph, node = conv_layer(machine, size=24, channels=(16, 32))
    space = any_space_of(graph, node, machine)
    assert space is not None
    (bound,) = space.bound(space.table([space.default]), PRESETS["ddr"])
    cycles = LayerRunner(graph, node, machine).measure(space.default)
    assert cycles is not None
    assert bound > 0.95 * cycles
