"""Machines with one planted fault: a line of the hardware's source is changed while it is emitted.

A fault is text in, text out, so that it says exactly what is wrong, and fails where the source no
longer has that line.
"""

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from daedal.hw.alu.requantize import Requantizer
from daedal.hw.bus.write_master import WriteMaster
from daedal.hw.emit import emit_verilog
from daedal.hw.gemm.forwarding import Accumulation
from daedal.hw.issue.tokens import TokenFile
from daedal.hw.load.filler import LoadFiller
from daedal.isa.variant import Variant

__all__ = ["MUTANTS", "Mutant", "mutant_verilog", "planted"]


@dataclass(frozen=True)
class Mutant:
    """`before` occurs once in the source of `owner.method` and becomes `after`."""

    owner: type
    method: str
    before: str
    after: str


MUTANTS = {
    "rounds down": Mutant(Requantizer, "_lane", "round_up(floor, guard, sticky)", "guard & 0"),
    "loses a token": Mutant(
        TokenFile,
        "_counter",
        "retire.payload.push[taker])",
        "retire.payload.push[taker] & int((giver, taker) != (Unit.GEMM, Unit.ALU)))",
    ),
    "does not wait": Mutant(
        TokenFile,
        "_counter",
        "[giver].eq(count.some)",
        "[giver].eq(count.some | int((giver, taker) == (Unit.LOAD, Unit.GEMM)))",
    ),
    "pads with zero": Mutant(
        LoadFiller, "_pad_word", "element.eq(value.as_signed())", "element.eq(0)"
    ),
    "never overwrites": Mutant(
        Accumulation, "_compare", "~fresh & ~match[1:].any()", "~match[1:].any()"
    ),
    "drops a byte": Mutant(
        WriteMaster, "_send_words", "Mux(self.stop, 0, ~0)", "Mux(self.stop, 0, ~1)"
    ),
}
"""Planted faults by name."""


@cache
def mutant_verilog(variant: Variant, mutant: Mutant) -> str:
    """The machine with that fault, with the pin `observe`."""
    with planted(mutant):
        return emit_verilog(variant, observe=True)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Within the block, what is emitted has the fault."""
    original = getattr(mutant.owner, mutant.method)
    source = textwrap.dedent(inspect.getsource(original))
    assert source.count(mutant.before) == 1, f"{mutant.method} has no single {mutant.before!r}"
    names = dict(vars(sys.modules[original.__module__]))
    exec(source.replace(mutant.before, mutant.after), names)  # noqa: S102 our own source
    setattr(mutant.owner, mutant.method, names[mutant.method])
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.method, original)
