"""The verifier against programs with wrong tokens, judged by what interleavings of them do.

Of the mutants that deadlock, change a byte, leave tokens or overflow a counter in some
interleaving, it has to catch all; of the others it may refuse only those in which it names a race,
and that race must be there. What it accepts must have none.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daedal.compiler.model import compile_model
from daedal.isa.program import Program
from daedal.isa.tokens import with_tokens
from daedal.isa.variant import Variant, load_variant
from tests.compiler.graph.qdq_models import QdqModel
from tests.support.accelerator import micro_variant
from tests.support.random_programs import random_program
from tests.support.token_harm import Bench, Tally, try_mutants
from tests.support.token_mutants import KINDS, mutants

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"


class _Layers(QdqModel):
    """Convolutions with random weights on channels of one count, one scale throughout."""

    def __init__(self, rng: np.random.Generator, channels: int) -> None:
        super().__init__()
        self._rng, self._channels = rng, channels

    def conv(self, x: str, kernel: int, stride: int = 1) -> str:
        shape = (self._channels, self._channels, kernel, kernel)
        values = self._rng.integers(-127, 128, shape, dtype=np.int8)
        scale = np.full(self._channels, 1 / (64 * kernel * np.sqrt(self._channels)))
        y = self.op(
            "Conv",
            x,
            self.weights(values, scale),
            self.bias(self._rng.integers(-500, 500, self._channels), scale * 0.05),
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            kernel_shape=[kernel, kernel],
        )
        return self.requantized(self.op("Relu", y), 0.05, 0)


def convolution(rng: np.random.Generator) -> Program:
    """One layer that takes many tiles on a machine with very small scratchpads."""
    net = _Layers(rng, 16)
    x = net.requantized(net.input("x", (1, 16, 7, 9)), 0.05, 0)
    model = net.model(net.conv(x, 3))
    return compile_model(model.SerializeToString(), micro_variant()).program


def residual(rng: np.random.Generator) -> Program:
    """Two convolutions, a shortcut, pooling, a strided convolution and the average."""
    net = _Layers(rng, 16)
    x = net.requantized(net.input("x", (1, 16, 9, 7)), 0.05, 0)
    y = net.conv(net.conv(x, 3), 3)
    y = net.requantized(net.op("Relu", net.op("Add", x, y)), 0.05, 0)
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.conv(net.requantized(y, 0.05, 0), 1, 2)
    model = net.model(net.requantized(net.op("GlobalAveragePool", y), 0.05, 0))
    return compile_model(model.SerializeToString(), load_variant("tiny")).program


def digits(_rng: np.random.Generator) -> Program:
    return compile_model(DIGITS, load_variant("vta")).program


def drawn(variant: Variant, length: int) -> Callable[[np.random.Generator], Program]:
    """A random program with the fewest tokens that order it, and as many as its counters hold."""
    return lambda rng: with_tokens(
        random_program(variant, int(rng.integers(1 << 30)), length=length).program
    )


def surplus(variant: Variant, length: int) -> Callable[[np.random.Generator], Program]:
    """A random program, with tokens that nothing needs among its own."""
    return lambda rng: random_program(variant, int(rng.integers(1 << 30)), length=length).program


TINY = load_variant("tiny")
NARROW = TINY.replace("narrow", token_bits=2)
PROGRAMS = {
    "convolution": convolution,
    "residual": residual,
    "digits": digits,
    "random": drawn(TINY, 32),
    "random, surplus tokens": surplus(TINY, 32),
    "random, wide": surplus(load_variant("wide"), 32),
    "random, counters up to 3": drawn(NARROW, 48),
}


def tried(name: str, seed: int, count: int | None) -> Tally:
    rng = np.random.default_rng(seed)
    program = PROGRAMS[name](rng)
    contents = {base: rng.bytes(program.region_bytes[base]) for base in (1, 2, 3)}
    tally = try_mutants(Bench(program, contents, rng), mutants(program, rng, count))
    size = len(program.instructions)
    print(f"{name}, seed {seed}, {size} instructions: {tally}")
    return tally


@pytest.mark.parametrize("name", PROGRAMS)
def test_wrong_tokens_are_found_and_right_ones_are_not(name: str) -> None:
    tally = tried(name, 5, 8)
    assert tally.wrong == []
    assert tally.harmful > 2 * len(KINDS)
    assert tally.accepted + tally.named > len(KINDS)
    assert set(tally.harms) >= {"deadlock", "tokens left", "bytes"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_many_wrong_tokens(name: str, seed: int) -> None:
    tally = tried(name, seed, 80)
    assert tally.wrong == []
