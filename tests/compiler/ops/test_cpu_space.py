"""`TileSpace`: the rule's tile is its default, and every tile computes the same."""

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import ScheduleError, TuningError
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.functions import Functions, level_registers
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.kernel import kernel_function, kernel_space
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.cpu.workload import KernelUse, kernel_workload
from daedal.compiler.ops.cpu.reuse import NARROW, WIDEST, Registers
from daedal.compiler.ops.cpu.space import TileSpace
from daedal.compiler.ops.graph.factors import PAIRS
from daedal.compiler.ops.space import Config
from daedal.native.cache import NoCache
from daedal.native.levels import VNNI, host_level, levels_to_run
from daedal.runtime.host_code import HostProgram
from tests.compiler.cpu.test_kernels import floats, model

SHAPES = {
    "conv": ((1, 8, 9, 11), (24, 8, 3, 3)),
    "depthwise": ((1, 12, 11, 17), (12, 1, 3, 3)),
    "matmul": ((13, 40), (40, 50)),
    "column": ((1, 64), (64, 48)),
}
PLAIN_LEVELS = [level for level in levels_to_run() if not level.endswith(VNNI)]
"""Of the processor here, without those that differ in products of integers alone."""


def uses(name: str, registers: Registers = NARROW) -> list[tuple[KernelUse, TileSpace]]:
    """The kernels of one operator that have several schedules, for these registers."""
    functions = Functions((host_level(),), NoCache(), checked=False)
    program_code(import_model(made(name), None, PAIRS, None), functions)
    found = [
        (use, kernel_space(use.kernel, use.free, registers)) for use in functions.uses.values()
    ]
    return [(use, space) for use, space in found if space is not None]


def made(name: str):
    """A model of one operator, and of a bias behind it."""
    x, w = SHAPES[name]
    if name in ("conv", "depthwise"):
        group = x[1] // w[1]
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4, group=group)]
    else:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["c"])]
    nodes.append(helper.make_node("Relu", ["c"], ["y"]))
    return model(nodes, x, {"w": np.random.default_rng(1).normal(size=w).astype(np.float32)})


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("registers", [NARROW, WIDEST])
def test_the_default_is_the_tile_of_the_rule(name: str, registers: Registers) -> None:
    for use, _ in uses(name):
        space = kernel_space(use.kernel, use.free, registers)
        if space is None:
            continue
        chosen = kernel_function(use.kernel, use.free, registers)
        again = kernel_function(use.kernel, use.free, registers, config=space.default)
        assert chosen.tiles == space.tiles(space.default) == again.tiles
        assert str(chosen.func) == str(again.func)
        assert space.fits(space.all()).all() and len(space) == len(space.configs(space.all()))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("level", PLAIN_LEVELS)
def test_every_tile_computes_the_same(name: str, level: str) -> None:
    """Some of each operator, and those with most rows and lanes."""
    x = floats(*SHAPES[name][0])
    expected = HostProgram(build_host_code(made(name), levels=[level])).run({"x": x})["y"]
    for use, space in uses(name, level_registers(level)):
        key = kernel_workload(use.kernel, use.free).key
        table = space.all()
        widest = [int(np.argmax(column)) for column in table.values()]
        configs = space.configs(table)
        drawn = space.sample(np.random.default_rng(2), 5)
        for config in dict.fromkeys([*drawn, *(configs[number] for number in widest)]):
            code = build_host_code(made(name), levels=[level], configs={key: config})
            found = HostProgram(code).run({"x": x})["y"]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_both_orders_of_loops_have_other_code() -> None:
    ((use, space),) = uses("conv")
    config = space.default
    other = Config.from_json({**config.to_json(), "order": 1 - config["order"]})
    assert space.fits(space.table([other]))[0]
    one, two = (
        kernel_function(use.kernel, use.free, NARROW, config=item) for item in (config, other)
    )
    assert str(one.func) != str(two.func)


def test_what_is_no_tile_is_refused() -> None:
    ((use, space),) = uses("conv")
    lanes = space.knobs["lanes"][-1]
    wrong = Config.from_json({**space.default.to_json(), "lanes": lanes, "rows": 1, "rows2": 99})
    with pytest.raises(ScheduleError, match="knob 'rows2' must be one of"):
        space.tiles(wrong)
    table = space.combinations()
    (bad,) = space.configs({knob: column[~space.fits(table)][:1] for knob, column in table.items()})
    with pytest.raises(ScheduleError, match=r"a schedule must be one of \d+ tiles"):
        space.tiles(bad)
    key = kernel_workload(use.kernel, use.free).key
    with pytest.raises(TuningError, match="a configuration must build its kernel"):
        build_host_code(made("conv"), configs={key: wrong})
