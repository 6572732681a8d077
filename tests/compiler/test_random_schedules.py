"""Random legal schedules of every operator: te = loop IR = the machine, whatever was chosen.

One of each operator runs always; ``-m slow`` runs 500 of each. An attempt that the compiler
refuses, a tile that does not fit among them, does not count.
"""

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.requantize import Bounds
from daedal.isa.variant import load_variant
from tests.support.accelerator import check_operator
from tests.support.accelerator_operators import conv_case
from tests.support.levels import Compiled, Layer, check_layer
from tests.support.operator_graphs.layer_graph import inputs_of
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick
from tests.support.random_schedule import random_schedule

VARIANTS = [
    *(load_variant(name) for name in ("tiny", "vta", "batch4", "wide")),
    load_variant("vta").replace("tables", tables=2, wide_requantize=True),
]

LONG = (
    *("softmax", "layer_norm", "rms_norm", "wide_layer_norm", "wide_rms_norm"),
    *("attention_weights", "weighted_mean"),
)
"""Operators of many stages, not tested here: of those of some twenty, 3 to 5 % of the attempts are
legal, of attention's 13 and 22 %, in some seeds fewer than `SHARE`."""

NAMES = [name for name in OPERATORS if name not in LONG]

NUM_QUICK, NUM_SLOW = 1, 40

PER_SHAPE = 5
"""Schedules tried of one shape."""

SHARE = 0.1
"""What part of the attempts must lead to a schedule: else the generator tests little."""


class Shape:
    """A layer with values, and what the compiler makes of it by itself."""

    def __init__(self, name: str, seed: int, number: int) -> None:
        pick = Pick.seeded((seed, number))
        variants = [variant for variant in VARIANTS if OPERATORS[name].runs_on(variant)]
        self.variant = variants[(seed + number) % len(variants)]
        self.graph = OPERATORS[name].graph(pick, self.variant)
        self.inputs = inputs_of(self.graph, pick)
        self.compiled = Compiled.of(self.graph, self.variant)
        self.values = self.compiled.values(self.inputs)
        self.rng = pick.rng

    def check_another(self) -> bool:
        """Whether another schedule was found; then it computes the same at every level."""
        try:
            layers = [self.rescheduled(layer) for layer in self.compiled.layers]
            compiled = Compiled.of(self.graph, self.variant, layers)
        except ScheduleError:
            return False
        for layer in layers:
            check_layer(layer, self.values, [("a random schedule", layer.lowered.schedule.func)])
        compiled.check_program(self.inputs)
        return True

    def rescheduled(self, layer: Layer) -> Layer:
        schedule = layer.lowered.schedule
        return layer.rescheduled(random_schedule(schedule, layer.original, self.rng))


def check(name: str, seed: int, wanted: int) -> None:
    found = attempts = number = 0
    while found < wanted:
        assert attempts * SHARE <= found + max(wanted, 3), (
            f"{found} of {attempts} attempts are legal"
        )
        print(f"{name}: seed {seed}, shape {number}")
        shape = Shape(name, seed, number)
        for _ in range(PER_SHAPE):
            if found < wanted:
                found, attempts = found + shape.check_another(), attempts + 1
        number += 1
    print(f"{name}: {found} of {attempts} attempts are legal")


@pytest.mark.parametrize("name", NAMES)
def test_random_schedules(name: str, seed: int) -> None:
    check(name, seed, NUM_QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_random_schedules(name: str, seed: int) -> None:
    check(name, seed, NUM_SLOW)


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("int16", Bounds(100, -20_000, 32_767)),
        ("int4", Bounds(1, -7, 6)),
        ("ecp5_half", Bounds(-3, -128, 120)),
    ],
)
def test_random_schedules_of_other_arrays(name: str, bounds: Bounds, seed: int) -> None:
    """Convolutions, which graphs have in 8 bits alone; rows renamed by the linker, and not."""
    variant = load_variant(name)
    found = attempts = 0
    while found < NUM_QUICK:
        print(f"seed {seed}, attempt {attempts}")
        rng = np.random.default_rng((seed, attempts))
        shape = (1, *rng.integers(1, 4, 3).tolist())
        kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        pads = (kernel[0] - 1, kernel[1] - 1, 0, 1)
        case = conv_case(variant, rng, shape, 2, kernel, (1, 2), pads, bounds=bounds)
        attempts += 1
        assert attempts * SHARE <= 3
        try:
            schedule = random_schedule(case.schedule, case.original, rng)
            check_operator(
                variant,
                case.y,
                case.original,
                schedule.func,
                case.arrays,
                renaming=bool(attempts % 2),
            )
        except ScheduleError:
            continue
        found += 1
