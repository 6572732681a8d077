"""What a machine's scratchpads hold, for tests of what executes programs."""

import numpy as np

from daedal.isa.numerics import integer_range
from daedal.isa.scratchpad import TABLE_ENTRY_BITS
from daedal.isa.semantics import State

__all__ = ["arrays", "fill"]


def arrays(state: State) -> dict[str, np.ndarray]:
    """Everything that a state holds."""
    return {
        **{name: getattr(state, name) for name in ("inp", "wgt", "acc", "out", "tab")},
        **vars(state.par),
        **{unit.name: words for unit, words in state.uops.items()},
    }


def fill(state: State, rng: np.random.Generator) -> None:
    """Values of every magnitude, the extremes often."""
    array = state.variant.array
    widths = {
        "inp": array.input_bits,
        "wgt": array.weight_bits,
        "acc": array.accumulator_bits,
        "out": array.output_bits,
        "tab": TABLE_ENTRY_BITS,
    }
    for name, bits in widths.items():
        low, high = integer_range(bits)
        target = getattr(state, name)
        values = rng.integers(low, high, target.shape, endpoint=True)
        extremes = rng.choice([low, high, -1, 0], target.shape)
        target[...] = np.where(rng.random(target.shape) < 0.3, extremes, values)
