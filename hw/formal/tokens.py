"""Claims about the token counters together with the gates before the units."""

from typing import Any

from amaranth.hdl import Cat, Fragment, Module, Mux, Signal

from daedal.hw.family import Portable
from daedal.hw.formal.claims import Claims, Inside
from daedal.hw.issue.gate import IssueGate
from daedal.hw.issue.tokens import QUEUED_UNITS, TokenFile
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import Variant

__all__ = ["Tokens"]

_OPCODES = {
    Unit.LOAD: Opcode.LOAD,
    Unit.GEMM: Opcode.GEMM,
    Unit.ALU: Opcode.ALU,
    Unit.STORE: Opcode.STORE,
}


class Tokens(Claims):
    """A unit gets an instruction if, and as soon as, the tokens that it pops were given.

    Models of the counters, one bit wider, count the tokens that retiring units gave and those that
    issued instructions popped. Claims after an error are void: the run is aborted.

    Parameters
    ----------
    variant : its `token_bits` and `queue_depth` matter, and the widths of instructions.
    token_file, issue_gate : the classes; tests pass broken ones.
    takers : units whose gates and counters are modelled.
    inductive : add claims about the registers of counters and gates, from which all claims follow
        by induction.
    """

    def __init__(
        self,
        *,
        variant: Variant,
        token_file: Any = TokenFile,
        issue_gate: Any = IssueGate,
        takers: tuple[Unit, ...] = QUEUED_UNITS,
        inductive: bool = False,
    ) -> None:
        super().__init__()
        self._variant = variant
        self._token_file = token_file
        self._issue_gate = issue_gate
        self._takers = takers
        self._inductive = inductive

    def state(self, m: Module) -> None:
        tokens = self._token_file(variant=self._variant)
        inside = _placed(m, "tokens", tokens)
        failed = Signal()
        gives = {}
        for unit in QUEUED_UNITS:
            retire = tokens.retire[unit]
            given = self.free(4, f"push{unit:d}")
            m.d.comb += [
                retire.valid.eq(self.free(1, f"retire{unit:d}")),
                retire.payload.push.eq(given),
                retire.payload.index.eq(self.free(1, f"retired_index{unit:d}")),
            ]
            gives[unit] = (retire.valid, given)
        overflows, waiting = [], []
        for unit in self._takers:
            found = self._gate(m, tokens, unit, gives, failed, inside)
            overflows += found[0]
            waiting += found[1]
        others = [u for u in QUEUED_UNITS if u not in self._takers]
        overflow = Cat(*overflows).any()
        # An overflow is reported two cycles later; claims are void from the overflow on.
        overflowed = Signal(2)
        m.d.sync += [
            overflowed.eq(Cat(overflow & ~failed, overflowed[0])),
            failed.eq(failed | overflow | tokens.error.valid),
        ]
        self.require(m, "overflow_reported", ~overflowed[1] | tokens.error.valid)
        if self._inductive:
            seen = Cat(inside[f"overflow{giver:d}"] for giver in QUEUED_UNITS).any()
            self.require(m, "overflow_seen", ~overflowed[0] | seen)
            if not others:
                self.require(m, "none_seen", failed | ~seen)
        self.reach(m, "overflow", overflow & ~failed)
        self.require(m, "left", failed | ~Cat(*waiting).any() | tokens.left)
        if not others:
            self.require(m, "no_false_error", failed | ~tokens.error.valid)
            self.require(m, "none_left", failed | Cat(*waiting).any() | ~tokens.left)

    def _gate(
        self, m: Module, tokens: Any, unit: Unit, gives: Any, failed: Signal, counters: Inside
    ) -> tuple[list[Any], list[Any]]:
        name = unit.name.lower()
        gate = self._issue_gate(variant=self._variant, opcode=_OPCODES[unit])
        inside = _placed(m, name, gate)
        instruction = gate.issue.p.instruction
        stands = self._drive(m, name, gate, tokens, unit, inside)
        pop, push = instruction.pop, instruction.push
        issued = Signal(name=f"{name}_issued")
        m.d.comb += issued.eq(gate.issue.valid & gate.issue.ready)
        largest = (1 << self._variant.units.token_bits) - 1
        there, overflows, waiting = [], [], []
        for giver in QUEUED_UNITS:
            if giver is unit:
                there.append(1)
                continue
            valid, given = gives[giver]
            count = Signal(self._variant.units.token_bits + 1, name=f"{name}_from_{giver:d}")
            give = valid & given[unit]
            take = issued & pop[giver]
            m.d.sync += count.eq(count + give - take)
            overflows.append((count == largest) & give & ~take)
            waiting.append(count != 0)
            there.append(count != 0)
            self.require(m, f"{name}_pops_what_was_given_{giver:d}", failed | ~take | (count != 0))
            if self._inductive:
                block = f"count_{giver:d}_{unit:d}"
                counted, some, many, full = (
                    counters[f"{block}.{field}"] for field in ("count", "some", "many", "full")
                )
                held = (counted == count) & (some == (count != 0)) & (many == (count > 1))
                flagged = held & (full == (count == largest))
                self.require(m, f"{name}_count_{giver:d}", failed | flagged)
        if self._inductive:
            some = Cat(gate.available, gate.mark_available)
            lacks = inside["lacking"] == (inside["wants"] & ~some)
            self.require(m, f"{name}_lacks_what_is_not_there", failed | lacks)
        legal = ~(pop | push)[unit]
        marked = instruction.mark & gate.marks_enabled
        granted = legal & ((pop & ~Cat(*there)) == 0) & (~marked | gate.mark_available)
        self.require(m, f"{name}_never_starves", failed | ~(stands & granted) | gate.issue.valid)
        self.require(m, f"{name}_takes_once", gate.take == Mux(issued, pop, 0))
        self.require(m, f"{name}_only_legal", ~gate.issue.valid | (stands & legal))
        self.require(m, f"{name}_reports", gate.error.valid == (stands & ~legal))
        self.require(m, f"{name}_marks", gate.mark_taken == (issued & marked))
        self.require(m, f"{name}_has_room", ~gate.mark_taken | gate.mark_available)
        self.reach(m, f"{name}_pops_three", issued & (pop == (15 ^ (1 << unit))))
        return overflows, waiting

    def _drive(
        self, m: Module, name: str, gate: Any, tokens: Any, unit: Unit, inside: Inside
    ) -> Signal:
        """Drive everything around a gate; return whether an instruction is at its output."""
        # The queue's word has the layout of the instruction. Only these fields matter here; of
        # `push`, only the unit's own bit.
        image = Signal.like(gate.issue.p.instruction)
        marks = self.free(1, f"{name}_marks")
        before = Signal(name=f"{name}_marks_before")
        begun = Signal(name=f"{name}_begun")
        m.d.sync += [before.eq(marks), begun.eq(1)]
        self.assume(m, f"{name}_marks_stay", ~begun | (marks == before))
        m.d.comb += [
            image.pop.eq(self.free(4, f"{name}_pop")),
            image.push.eq(self.free(1, f"{name}_next_push") << unit),
            image.mark.eq(self.free(1, f"{name}_mark")),
            gate.queue.p.instruction.eq(image),
            gate.queue.valid.eq(self.free(1, f"{name}_valid")),
            gate.issue.ready.eq(self.free(1, f"{name}_ready")),
            gate.marks_enabled.eq(marks),
            gate.available.eq(tokens.available[unit]),
            gate.plenty.eq(tokens.plenty[unit]),
            gate.coming.eq(tokens.coming[unit]),
            tokens.take[unit].eq(gate.take),
        ]
        room = Signal(2, name=f"{name}_room")
        freed = self.free(1, f"{name}_freed")
        m.d.comb += [
            gate.mark_available.eq(room != 0),
            gate.mark_plenty.eq(room > 1),
            gate.mark_coming.eq(freed & (room != 3)),
        ]
        m.d.sync += room.eq(room + gate.mark_coming - gate.mark_taken)

        # An instruction is at the output two cycles after it arrived, after those before it.
        queued = Signal(range(self._variant.units.queue_depth + 1), name=f"{name}_queued")
        stands = Signal(name=f"{name}_stands")
        moves = Signal(name=f"{name}_moves")
        m.d.comb += moves.eq(~stands | (gate.issue.valid & gate.issue.ready))
        push = gate.queue.valid & gate.queue.ready
        m.d.sync += queued.eq(queued + push - (moves & (queued != 0)))
        with m.If(moves):
            m.d.sync += stands.eq(queued != 0)
        self.require(m, f"{name}_vacant", gate.vacant == (~stands & (queued == 0)))
        if self._inductive:
            tally = [inside[f"memory.tally.{field}"] for field in ("count", "none", "full")]
            depth = self._variant.units.queue_depth
            self.require(
                m,
                f"{name}_queue",
                (queued <= depth) & (Cat(tally) == Cat(queued, queued == 0, queued == depth)),
            )
            word = gate.issue.p.instruction
            wanted = Mux(stands, Cat(word.pop, word.mark & marks), 0)
            refused = stands & (word.pop | word.push)[unit]
            ready = stands & ~refused & (inside["lacking"] == 0)
            for field, value in (("r_en", moves), ("wants", wanted), ("closed", ~ready)):
                self.require(m, f"{name}_{field}", inside[field] == value)
            self.require(m, f"{name}_issues", gate.issue.valid == ready)
            self.require(m, f"{name}_begins_empty", begun | (~stands & (queued == 0)))
        return stands


def _placed(m: Module, name: str, block: Any) -> Inside:
    """Add a block without the contracts of its own."""
    fragment = Fragment.get(block, Portable.PLAIN)
    m.submodules[name] = fragment
    return Inside(fragment)
