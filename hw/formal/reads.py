"""Claims about the read master: no word ever arrives at a full FIFO."""

from types import ModuleType
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data

from daedal.hw.bus import read_master
from daedal.hw.bus.burst import burst_layout
from daedal.hw.formal.claims import Claims, Inside
from daedal.isa.latencies import MAX_BURST_BEATS
from daedal.isa.variant import Variant

__all__ = ["ReadCredit"]


class ReadCredit(Claims):
    """For any requests, and any behaviour of readers and memory, every word finds room in its FIFO.

    Memory is arbitrary, but returns no more words and no more ends of bursts than were requested.
    The claims assume of the burst splitters what `bursts.BurstSplitting` proves: bursts have 1 to
    32 beats. A FIFO's credit and the words in flight into it, in it and out of it add up to its
    depth; with that, and with the contracts of the blocks inside, the claims are inductive.

    Parameters
    ----------
    variant : gives the depths of the FIFOs and the number of outstanding bursts. readers : 1 or 2.
    module : `hw.bus.read_master`; tests pass a broken one.
    """

    def __init__(
        self, *, variant: Variant, readers: int = 2, module: ModuleType = read_master
    ) -> None:
        super().__init__()
        self._readers = readers
        self._variant = variant
        self._module: Any = module

    def state(self, m: Module) -> None:
        block = self._module.ReadMaster(variant=self._variant, readers=self._readers)
        inside = self.place(m, "block", block)
        m.d.comb += [
            block.ar.ready.eq(self.free(1, "ar_ready")),
            block.r.valid.eq(self.free(1, "r_valid")),
            block.r.payload.id.eq(self.free(1, "r_id") if self._readers > 1 else 0),
            block.r.payload.last.eq(self.free(1, "r_last")),
            block.stop.eq(self.free(1, "stop")),
        ]
        self.require(m, "always_ready", block.r.ready)
        word = data.View(block.r.payload.shape(), inside["word"])
        self._bursts(m, block, inside, inside["word_valid"] & word.last)
        for reader in range(self._readers):
            request = block.request[reader]
            m.d.comb += [
                request.valid.eq(self.free(1, f"asks{reader}")),
                request.payload.beats.eq(self.free(len(request.payload.beats), f"beats{reader}")),
                block.data[reader].ready.eq(self.free(1, f"takes{reader}")),
            ]
            given = ~request.valid | (request.payload.beats != 0)
            self.assume(m, f"some_beats{reader}", given)
            self._splitter(m, inside, reader)
            self._fifo(m, inside, f"fifo{reader}")
            comes = inside["word_valid"] & (word.id == reader)
            self._credit(m, block, inside, reader, comes)

    def _bursts(self, m: Module, block: Any, inside: Inside, closes: Value) -> None:
        """Bursts that memory has accepted but not completed: bounded by `bus.read_bursts`."""
        most = self._variant.bus.read_bursts
        accepted = Signal(range(most + 1))
        ends = block.r.valid & block.r.payload.last
        m.d.sync += accepted.eq(accepted + (block.ar.valid & block.ar.ready) - ends)
        self.assume(m, "ends_what_is_open", ~ends | (accepted != 0))
        counted = accepted + block.ar.valid + closes
        self.require(m, "open_bursts_are_counted", inside["open.count"] == counted)
        self.require(m, "open_bursts_are_bounded", accepted + block.ar.valid <= most)

    def _beats(self, inside: Inside, reader: int) -> Value:
        payload = inside[f"splitter{reader}.o__payload"]
        return data.View(burst_layout(self._variant), payload).beats

    def _splitter(self, m: Module, inside: Inside, reader: int) -> None:
        """Assume what is proved of the splitter elsewhere."""
        beats = self._beats(inside, reader)
        legal = (beats != 0) & (beats <= MAX_BURST_BEATS)
        self.assume(m, f"legal_bursts{reader}", ~inside[f"splitter{reader}.o__valid"] | legal)

    def _fifo(self, m: Module, inside: Inside, fifo: str) -> None:
        """Claims on the places of a FIFO's words, which make the other claims inductive."""
        level, spoken = inside[f"{fifo}.level.count"], inside[f"{fifo}.spoken.count"]
        reading = Signal(name=f"{fifo}_reading")
        m.d.sync += reading.eq(inside[f"{fifo}.fetch"])
        under_way = reading + inside[f"{fifo}.landing"] + inside[f"{fifo}.skid.tally.count"]
        self.require(m, f"{fifo}_speaks_for_what_comes", spoken == under_way)
        write, read = inside[f"{fifo}.$signature__addr"], inside[f"{fifo}.read__addr"]
        distance = (write - read)[: len(write)]
        self.require(m, f"{fifo}_holds_its_words", distance == level[: len(write)])

    def _credit(self, m: Module, block: Any, inside: Inside, reader: int, comes: Value) -> None:
        """The balance of a FIFO: words on the bus, words held, and unreserved places."""
        ar, r, depth = block.ar, block.r, self._module.fifo_depth_words(self._variant, reader)
        owed, on_bus, held = (
            Signal(range(2 * depth + 1), name=f"{name}{reader}")
            for name in ("owed", "on_bus", "held")
        )
        mine = ar.valid & (ar.payload.id == reader)
        asking = Mux(mine, ar.payload.len + 1, 0)
        answers = r.valid & (r.payload.id == reader)
        words, fifo = block.data[reader], f"fifo{reader}"
        granted = Mux(inside[f"grant{reader}"], self._beats(inside, reader), 0)
        m.d.sync += [
            owed.eq(owed + Mux(ar.ready, asking, 0) - answers),
            on_bus.eq(on_bus + granted - comes),
            held.eq(held + comes - (words.valid & words.ready)),
        ]
        self.assume(m, f"gives_what_was_asked_for{reader}", ~answers | (owed != 0))
        level, spoken = inside[f"{fifo}.level.count"], inside[f"{fifo}.spoken.count"]
        spare, left = inside[f"spare{reader}"], inside[f"left{reader}"]  # counted one cycle late
        balance = spare + MAX_BURST_BEATS + on_bus + held + left == depth
        for name, holds in (
            ("on_bus", on_bus == owed + asking + comes),
            ("held", held == level + spoken),
            ("balance", balance),
            ("promises_one_burst_at_most", spare >= -MAX_BURST_BEATS),
            ("has_room", ~comes | ~inside[f"{fifo}.level.full"]),
        ):
            self.require(m, f"{fifo}_{name}", holds)
        self.reach(m, f"{fifo}_is_owed_two_bursts", owed > MAX_BURST_BEATS)
