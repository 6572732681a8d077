"""The rules of isa/memory_model.py once more, in plain Python: what `dram.v` is held against."""

from collections import deque
from dataclasses import dataclass

from daedal.isa.memory_model import MemoryModel

MASK = (1 << 64) - 1


@dataclass
class Burst:
    """One open burst; `due` is the first cycle in which its data (or its B) may be offered."""

    number: int
    address: int
    length: int
    due: int
    beat: int = 0
    failed: int = 0


class MemoryReference:
    """Steps cycle by cycle: `step` takes what the master drives, returns what the memory drives."""

    def __init__(self, model: MemoryModel, word_bytes: int, words: int) -> None:
        self.model = model
        self.word_bytes = word_bytes
        self.memory: list[int | None] = [None] * words  # None: never written
        self.random = model.generator_state
        self.cycle = 0
        self.reads: deque[Burst] = deque()
        self.writes: deque[Burst] = deque()
        self.acks: deque[Burst] = deque()
        self.offered = False  # an R beat waits for RREADY
        self.held: int | None = None  # its data
        self.ack_offered = False
        self.write_turn = False
        self.read_rest = self.write_rest = 0

    def _stalls(self, channel: int) -> bool:
        return (self.random >> 8 * channel & 0xFF) < self.model.stall_per_256[channel]

    def step(self, m: dict[str, int]) -> dict[str, int]:
        """Play one cycle; outputs that mean nothing (data without valid) are left out."""
        model, out = self.model, {}
        out["s_arready"] = int(len(self.reads) < model.max_read_bursts and not self._stalls(0))
        in_flight = len(self.writes) + len(self.acks)
        out["s_awready"] = int(in_flight < model.max_write_bursts and not self._stalls(2))

        # Rule 5: who may use this cycle's beat.
        write_open = bool(self.writes) and not self._stalls(3) and not self.write_rest
        can_write = write_open and bool(m["s_wvalid"])
        reading = bool(self.reads) and self.reads[0].beat > 0
        writing = bool(self.writes) and self.writes[0].beat > 0
        if reading == writing:
            write_first = self.write_turn
        else:
            write_first = writing
        rvalid = self.offered
        due = bool(self.reads) and self.cycle >= self.reads[0].due and not self.read_rest
        if not rvalid and due and not self._stalls(1):
            rvalid = not (model.shared_bus and can_write and write_first)
        read_moves = rvalid and bool(m["s_rready"])
        write_ready = write_open
        if model.shared_bus and read_moves:
            write_ready = False
        write_moves = write_ready and bool(m["s_wvalid"])
        moves = read_moves or write_moves
        rest = model.beat_cycles - 1
        busy_read = moves if model.shared_bus else read_moves
        busy_write = moves if model.shared_bus else write_moves
        self.read_rest = rest if busy_read else max(0, self.read_rest - 1)
        self.write_rest = rest if busy_write else max(0, self.write_rest - 1)

        out["s_rvalid"], out["s_wready"] = int(rvalid), int(write_ready)
        ended_read = ended_write = False
        store: tuple[int, int | None] | None = None
        arriving = self._arrive(m, out)
        if rvalid:
            burst = self.reads[0]
            word = burst.address // self.word_bytes + burst.beat
            inside = word < len(self.memory)
            if not self.offered:
                self.held = self.memory[word] if inside else None
            out["s_rid"] = burst.number
            out["s_rresp"] = 0 if inside else 3
            out["s_rlast"] = int(burst.beat == burst.length - 1)
            if self.held is not None:
                out["s_rdata"] = self.held
            self.offered = not read_moves
            if read_moves:
                burst.beat += 1
                if burst.beat == burst.length:
                    self.reads.popleft()
                    ended_read = True

        bvalid = self.ack_offered or (
            bool(self.acks) and self.cycle >= self.acks[0].due and not self._stalls(4)
        )
        out["s_bvalid"] = int(bvalid)
        if bvalid:
            out["s_bid"] = self.acks[0].number
            out["s_bresp"] = self.acks[0].failed
            if m["s_bready"]:
                self.acks.popleft()
        self.ack_offered = bvalid and not m["s_bready"]

        if write_moves:
            burst = self.writes[0]
            word = burst.address // self.word_bytes + burst.beat
            if word < len(self.memory):
                store = (word, self._merge(self.memory[word], m["s_wdata"], m["s_wstrb"]))
            else:
                burst.failed = 3
            burst.beat += 1
            if burst.beat == burst.length:
                self.writes.popleft()
                extra = self.random >> 48 & model.extra_latency_cycles
                burst.due = self.cycle + model.write_latency_cycles + extra
                self.acks.append(burst)
                ended_write = True

        if store is not None:
            self.memory[store[0]] = store[1]
        for queue, burst in arriving:
            queue.append(burst)
        if ended_read:
            self.write_turn = True
        elif ended_write:
            self.write_turn = False
        self.cycle += 1
        self.random ^= self.random << 13 & MASK
        self.random ^= self.random >> 7
        self.random ^= self.random << 17 & MASK
        return out

    def _arrive(self, m: dict[str, int], out: dict[str, int]) -> list[tuple[deque[Burst], Burst]]:
        arriving = []
        if m["s_arvalid"] and out["s_arready"]:
            extra = self.random >> 40 & self.model.extra_latency_cycles
            due = self.cycle + self.model.read_latency_cycles + extra
            burst = Burst(m["s_arid"], m["s_araddr"], m["s_arlen"] + 1, due)
            arriving.append((self.reads, burst))
        if m["s_awvalid"] and out["s_awready"]:
            burst = Burst(m["s_awid"], m["s_awaddr"], m["s_awlen"] + 1, 0)
            arriving.append((self.writes, burst))
        return arriving

    def _merge(self, old: int | None, new: int, strobe: int) -> int | None:
        if old is None:
            return new if strobe == (1 << self.word_bytes) - 1 else None
        keep = sum(0xFF << 8 * lane for lane in range(self.word_bytes) if not strobe >> lane & 1)
        return old & keep | new & ~keep
