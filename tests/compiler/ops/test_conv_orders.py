"""The orders of a convolution's work: knobs `threads` and `sums_outside`."""

import itertools

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.compiler.ops.accelerator.conv.layers import ORDERS
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of
from daedal.compiler.ops.space import Config
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.tuning.layer_runner import LayerRunner, build
from tests.support.accelerator import micro_variant
from tests.support.accelerator_operators import conv_case
from tests.support.conv_nodes import conv_layer

TINY = load_variant("tiny")


@pytest.fixture(scope="module")
def layer():
    """Graph and node of a convolution with several blocks of inputs and outputs."""
    return conv_layer(TINY, channels=(32, 48), size=6)


@pytest.fixture(scope="module")
def space(layer) -> ConvSpace:
    found = any_space_of(*layer, TINY)
    assert isinstance(found, ConvSpace)
    return found


def orders(space: ConvSpace, config: Config) -> list[Config]:
    """`config` in every order that it has."""
    choices = itertools.product(*ORDERS.values())
    found = [
        Config(tuple({**config.to_json(), **dict(zip(ORDERS, values, strict=True))}.items()))
        for values in choices
    ]
    return [item for item in found if space.fits(space.table([item]))[0]]


def usual(config: Config) -> bool:
    """Whether `config` has the default's order."""
    return all(config[knob] == values[0] for knob, values in ORDERS.items())


def test_every_order_is_another_program_with_the_same_result(layer, space):
    """`LayerRunner` raises where a result differs from the interpreter's."""
    runner = LayerRunner(*layer, TINY)
    rng = np.random.default_rng(20)
    drawn = [config for config in space.sample(rng, 60) if len(orders(space, config)) == 4][:3]
    assert len(drawn) == 3
    for config in drawn:
        programs = [build(runner.task, item).encode() for item in orders(space, config)]
        assert len(set(programs)) == 4, config
        assert None not in runner(orders(space, config)), config


def test_the_default_has_the_usual_order(space):
    assert usual(space.default)
    assert all(usual(config) for config in space.ranked()[:50])


def test_a_record_without_the_knobs_is_of_the_usual_order(layer, space):
    values = space.default.to_json()
    older = Config.from_json({knob: values[knob] for knob in values if knob not in ORDERS})
    assert space.complete(older) == space.default
    assert space.configs(space.table([older])) == [space.default]
    runner = LayerRunner(*layer, TINY)
    assert build(runner.task, older).encode() == build(runner.task, space.default).encode()


def test_no_other_knob_may_be_missing(space):
    values = space.default.to_json()
    del values["height"]
    with pytest.raises(ScheduleError, match="a configuration must have the knobs gather, height"):
        space.table([Config.from_json(values)])


def test_orders_that_change_nothing_are_left_out(space):
    for config in space.sample(np.random.default_rng(20), 200):
        tiles = -(-space.shapes[0].out_blocks // config["out_blocks"])
        assert config["threads"] == 1 or tiles > 1
        step = config["in_blocks"] * config["tap_rows"] * config["tap_columns"]
        outputs = config["out_blocks"] * config["height"] * config["width"]
        assert not config["sums_outside"] or (step > 1 and outputs > 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_outside_computes_the_same(threads, seed):
    """Random shapes, with padding that is left out and that is not."""
    rng = np.random.default_rng([20, seed])
    kernel = tuple(rng.integers(1, 4, 2).tolist())
    shape = (1, int(rng.integers(1, 4)), *rng.integers(4, 8, 2).tolist())
    tile = ConvTile(
        *rng.integers(1, 4, 2).tolist(),
        out_blocks=1,
        in_blocks=int(rng.integers(1, shape[1] + 1)),
        group=0,
        keep_inputs=False,
        threads=threads,
        sums_outside=True,
    )
    conv_case(
        micro_variant() if seed % 2 else TINY,
        rng,
        shape,
        3,
        kernel,
        pads=(kernel[0] // 2, kernel[1] // 2) * 2,
        pad_value=0 if seed < 2 else 5,
        tile=tile,
    ).check()


def test_products_of_a_step_change_places(rng):
    """The loop over sums is the outermost loop of an instruction, instead of an inner one."""

    def first_product(sums_outside: bool):
        tile = ConvTile(1, 4, 1, 2, 0, False, sums_outside=sums_outside)
        case = conv_case(TINY, rng, (1, 2, 4, 4), 1, (1, 1), tile=tile)
        segment = case.check().segment
        return next(item for item in segment.instructions if item.unit is Unit.GEMM)

    assert first_product(False) != first_product(True)
