"""Runs a program with its units in any order that the tokens allow, to see what tokens are for.

Each unit executes its own instructions in order; when it may start the next one depends on tokens
alone, and who goes first is a policy's choice. An instruction takes effect at once, so a run is the
program in another order, and the functional simulator computes what it leaves behind. Nothing here
knows what an instruction touches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.common.errors import DeviceError
from daedal.isa.instruction import units_of
from daedal.isa.numerics import integer_range
from daedal.isa.program import Program
from daedal.isa.scratchpad import TABLE_ENTRY_BITS
from daedal.isa.semantics import State
from daedal.isa.table import Opcode, Unit
from daedal.sim.functional.device import FunctionalDevice

__all__ = [
    "UNITS",
    "Interleaver",
    "Interleaving",
    "Policy",
    "Replay",
    "check_interleavings",
    "delaying",
    "in_program_order",
    "preferring",
    "wandering",
    "withholding",
]

UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
_UNITS_OF = [units_of(mask) for mask in range(1 << len(UNITS))]

Policy = Callable[[Mapping[Unit, int]], Unit | None]
"""Given the units that may start, and the number of each one's next instruction: which one does.
None where the machine would rather wait, which ends the run."""


@dataclass(frozen=True)
class Interleaving:
    """One run.

    Attributes
    ----------
    order : instruction numbers as they took effect, without FINISH.
    stuck : per unit that does not come to its end, the instruction that it waits with.
    left : tokens that nobody took, by (from, to).
    most_tokens : the most that one counter held.
    """

    order: tuple[int, ...]
    stuck: Mapping[Unit, int]
    left: Mapping[tuple[Unit, Unit], int]
    most_tokens: int


class Interleaver:
    """The units of one program; as many runs as asked for."""

    def __init__(self, program: Program) -> None:
        items = program.instructions
        numbers = [n for n, item in enumerate(items) if item.opcode is not Opcode.FINISH]
        self._queues = {unit: [n for n in numbers if items[n].unit is unit] for unit in UNITS}
        self._pops = [item.pop for item in items]
        self._pushes = [item.push for item in items]

    def run(self, policy: Policy) -> Interleaving:
        """Run as `policy` says, until no unit may start an instruction."""
        waiting = {unit: iter(queue) for unit, queue in self._queues.items()}
        heads = {unit: next(waiting[unit]) for unit, queue in self._queues.items() if queue}
        tokens = {(source, target): 0 for source in UNITS for target in UNITS}
        there = dict.fromkeys(UNITS, 0)  # masks of the units from which there is a token
        order: list[int] = []
        most = 0
        while True:
            ready = {
                unit: number
                for unit, number in heads.items()
                if not self._pops[number] & ~there[unit]
            }
            unit = policy(ready) if ready else None
            if unit is None:
                break
            number = ready[unit]
            for source in _UNITS_OF[self._pops[number]]:
                tokens[source, unit] -= 1
                if not tokens[source, unit]:
                    there[unit] &= ~(1 << source)
            for target in _UNITS_OF[self._pushes[number]]:
                tokens[unit, target] += 1
                most = max(most, tokens[unit, target])
                there[target] |= 1 << unit
            order.append(number)
            following = next(waiting[unit], None)
            if following is None:
                del heads[unit]
            else:
                heads[unit] = following
        left = {pair: count for pair, count in tokens.items() if count}
        return Interleaving(tuple(order), heads, left, most)


def in_program_order() -> Policy:
    """A machine without queues: no instruction starts before all earlier ones are done."""
    number = -1

    def choose(ready: Mapping[Unit, int]) -> Unit | None:
        nonlocal number
        number += 1
        return next((unit for unit, head in ready.items() if head == number), None)

    return choose


def preferring(units: Sequence[Unit]) -> Policy:
    """The first of `units` that may: it runs as early as it can, the last one as late."""
    return lambda ready: next(unit for unit in units if unit in ready)


def delaying(number: int, units: Sequence[Unit] = UNITS) -> Policy:
    """Like `preferring`, but instruction `number` starts only when nothing else may."""

    def choose(ready: Mapping[Unit, int]) -> Unit:
        others = [unit for unit in units if ready.get(unit, number) != number]
        return others[0] if others else next(iter(ready))

    return choose


def withholding(number: int) -> Policy:
    """Everything that may run without instruction `number`, and nothing after that."""
    return lambda ready: next((unit for unit, head in ready.items() if head != number), None)


def wandering(rng: np.random.Generator) -> Policy:
    """Anyone, at random; each unit has a speed of its own, so that some run far ahead."""
    weights = dict(zip(UNITS, rng.exponential(size=len(UNITS)) ** 2 + 0.01, strict=True))

    def choose(ready: Mapping[Unit, int]) -> Unit:
        reach = np.cumsum([weights[unit] for unit in ready])
        return list(ready)[int(np.searchsorted(reach, rng.random() * reach[-1]))]

    return choose


class Replay:
    """What memory holds after a program ran in some order of its instructions.

    Scratchpads hold random numbers at first, so that what is read too early is no lucky zero.

    Parameters
    ----------
    contents : bytes that the regions hold at first, by number; 0 is the constants'.
    """

    def __init__(
        self, program: Program, contents: Mapping[int, bytes], rng: np.random.Generator
    ) -> None:
        self._program = program
        self._bare = [item.replace(pop=0, push=0) for item in program.instructions]
        self._contents = contents
        self._device = FunctionalDevice(program.variant)
        self._bases = [self._device.alloc(size) for size in program.region_bytes]
        self._device.write(self._bases[0], program.constants)
        self._arrays = _arrays(self._device.state)
        self._first = [_random_like(array, bits, rng) for array, bits in self._arrays]
        self._kept: dict[tuple[int, ...], bytes] = {}

    def __call__(self, order: tuple[int, ...]) -> bytes:
        """Inputs, outputs and workspace; the error's text where the machine refuses to go on."""
        if order not in self._kept:
            self._kept[order] = self._run(order)
        return self._kept[order]

    def _run(self, order: tuple[int, ...]) -> bytes:
        device, program = self._device, self._program
        for (array, _), first in zip(self._arrays, self._first, strict=True):
            array[...] = first
        for base in range(1, len(self._bases)):
            size = program.region_bytes[base]
            device.write(self._bases[base], self._contents.get(base, b"").ljust(size, b"\0"))
        items = [self._bare[number] for number in (*order, len(self._bare) - 1)]
        ordered = Program(program.variant, tuple(items), program.constants, program.region_bytes)
        try:
            device.launch(ordered, self._bases)
        except DeviceError as error:
            return str(error).encode()
        return b"".join(
            device.read(base, size)
            for base, size in zip(self._bases[1:], program.region_bytes[1:], strict=True)
        )


def _arrays(state: State) -> list[tuple[np.ndarray, int]]:
    """Every array of the state with the bits of its elements, negative where unsigned."""
    array, units = state.variant.array, state.variant.units
    return [
        (state.inp, array.input_bits),
        (state.wgt, array.weight_bits),
        (state.acc, array.accumulator_bits),
        (state.out, array.output_bits),
        (state.par.bias, array.accumulator_bits),
        (state.par.multiplier, -units.multiplier_bits),
        (state.par.shift, -6),
        (state.tab, TABLE_ENTRY_BITS),
        *((uops, -63) for uops in state.uops.values()),
    ]


def _random_like(array: np.ndarray, bits: int, rng: np.random.Generator) -> np.ndarray:
    low, high = integer_range(bits) if bits > 0 else (0, (1 << -bits) - 1)
    return rng.integers(low, high, array.shape, endpoint=True).astype(array.dtype)


def check_interleavings(
    program: Program,
    rng: np.random.Generator,
    runs: int,
    contents: Mapping[int, bytes] | None = None,
) -> bytes:
    """Fail unless `runs` random orders that the tokens allow leave what the program's order leaves.

    Returns that. `contents` are what the inputs hold, by region; without them, random bytes.
    """
    given = contents or {
        spec.base: rng.bytes(spec.offset_bytes + spec.size_bytes) for spec in program.inputs
    }
    units, replay = Interleaver(program), Replay(program, given, rng)
    serial = replay(units.run(in_program_order()).order)
    for _ in range(runs):
        run = units.run(wandering(rng))
        assert not run.stuck and not run.left
        assert replay(run.order) == serial
    return serial
