"""The verifier against programs with wrong tokens, judged by what interleavings of them do.

Of the mutants that deadlock, change a byte, leave tokens or overflow a counter in some
interleaving, it has to catch all; of the others it may refuse only those in which it names a race,
and that race must be there. What it accepts must have none.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.common.errors import VerificationError
from daedal.compiler.model import compile_model
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.table import Unit
from daedal.isa.tokens import with_tokens
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from tests.support.accelerator import micro_variant
from tests.support.token_harm import Bench, Tally, try_mutants
from tests.support.token_mutants import TokenMutant, mutants

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
    x = net.requantized(net.input("x", (1, 16, 5, 7)), 0.05, 0)
    model = net.model(net.conv(x, 3))
    return compile_model(model.SerializeToString(), micro_variant()).program


def residual(rng: np.random.Generator, height: int = 9, width: int = 7) -> Program:
    """Two convolutions, a shortcut, pooling, a strided convolution and the average."""
    net = _Layers(rng, 16)
    x = net.requantized(net.input("x", (1, 16, height, width)), 0.05, 0)
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
    "random, int4": surplus(load_variant("int4"), 32),
    "random, counters up to 3": drawn(NARROW, 48),
}


def setting(name: str, seed: int, count: int | None) -> tuple[Bench, Iterator[TokenMutant]]:
    rng = np.random.default_rng(seed)
    program = PROGRAMS[name](rng)
    return bench_of(program, rng), mutants(program, rng, count)


def bench_of(program: Program, rng: np.random.Generator) -> Bench:
    contents = {base: rng.bytes(program.region_bytes[base]) for base in (1, 2, 3)}
    return Bench(program, contents, rng)


def tried(name: str, seed: int, count: int | None) -> Tally:
    bench, changed = setting(name, seed, count)
    tally = try_mutants(bench, changed, partial(verify, zeroed=True))
    size = len(bench.program.instructions)
    print(f"{name}, seed {seed}, {size} instructions: {tally}")
    return tally


@pytest.mark.parametrize("name", PROGRAMS)
def test_wrong_tokens_are_found_and_right_ones_are_not(name: str) -> None:
    count = 25
    tally = tried(name, 5, count)
    assert tally.wrong == []
    assert tally.caught == tally.harmful > 3 * count
    assert tally.accepted > 0
    assert set(tally.harms) >= {"deadlock", "tokens left", "bytes"}


@pytest.mark.slow
def test_wrong_tokens_of_a_larger_network(rng: np.random.Generator) -> None:
    program = residual(rng, 24, 22)
    tally = try_mutants(
        bench_of(program, rng), mutants(program, rng, 20), partial(verify, zeroed=True)
    )
    print(f"{len(program.instructions)} instructions: {tally}")
    assert len(program.instructions) > 400
    assert tally.wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_wrong_token(name: str, seed: int) -> None:
    assert tried(name, seed, None).wrong == []


def wrong_with(check: Callable[[Program], object]) -> set[str]:
    """What the bench says about a bad verifier, without the numbers."""
    tally = try_mutants(*setting("random, surplus tokens", 5, 15), check)
    assert tally.wrong
    return {re.split(r": (?:accesses|a token)", text)[0].split(": ")[-1] for text in tally.wrong}


def test_a_verifier_that_accepts_everything_would_be_found() -> None:
    said = {re.sub(r"\(.*", "", text) for text in wrong_with(lambda _program: None)}
    harms = {"bytes", "deadlock", "deadlock in program order", "tokens left", "race of "}
    assert said == {f"accepted, but {harm}" for harm in harms}


def test_a_verifier_that_names_what_is_no_race_would_be_found() -> None:
    def refuse(message: str) -> set[str]:
        def check(_program: Program) -> None:
            raise VerificationError(message)

        return wrong_with(check)

    text = (
        "accesses by two units to the same place must be ordered by tokens; instruction {} (ALU) "
        "reads row {} of scratchpad 'acc' while instruction {} ({}) may still use it"
    )
    assert refuse("a token is wrong") == {"names no race"}
    program = setting("random, surplus tokens", 5, 0)[0].program
    numbers = range(len(program.instructions))
    store, alu = (
        next(n for n in reversed(numbers) if program.instructions[n].unit is unit)
        for unit in (Unit.STORE, Unit.ALU)
    )
    assert refuse(text.format(alu, 0, store, "LOAD")) == {"names wrong units"}
    assert refuse(text.format(alu, 300, store, "STORE")) == {
        "the later instruction does not use the place so"
    }
