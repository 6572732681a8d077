"""An AXI4 memory for Amaranth testbenches that checks its master's manners.

Input: the channel streams of `ReadMaster` and `WriteMaster`. The checks are those of the protocol
(valid and payload stay until ready, no burst crosses 4 KiB) and of the machine (at most 32 beats,
a bound on open bursts, RREADY and BREADY always 1).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daedal.isa.latencies import MAX_BURST_BEATS, PAGE_BYTES
from daedal.isa.variant import Variant
from tests.hw.stream_bench import plain

__all__ = ["AxiSlave", "Burst"]


@dataclass
class Burst:
    """An accepted address: the cycle, byte address, beats, and beats already served."""

    cycle: int
    id: int
    address: int
    beats: int
    served: int = 0
    due: int = 0


@dataclass
class AxiSlave:
    """Memory `data` (bytes) behind AXI4.

    `read_latency` cycles after AR the first beat is there, `write_latency` cycles after the last W
    beat B is; a random 0 to `extra_latency` is added. Each channel stalls with odds `stall`. With
    `interleave`, read bursts of different IDs mix beat by beat. `read_errors` and `write_errors`
    give RRESP and BRESP by byte address (of a beat, of a burst's start).
    """

    variant: Variant
    data: np.ndarray
    rng: np.random.Generator
    read_latency: int = 1
    write_latency: int = 1
    extra_latency: int = 0
    stall: float = 0.0
    interleave: bool = False
    read_errors: dict[int, int] = field(default_factory=dict)
    write_errors: dict[int, int] = field(default_factory=dict)
    bursts_read: list[Burst] = field(default_factory=list)
    bursts_written: list[Burst] = field(default_factory=list)
    most_open_reads: int = 0
    most_open_writes: int = 0
    beats_read: int = 0
    beats_written: int = 0
    silent: bool = False

    def _stalls(self) -> bool:
        return self.stall > 0 and self.rng.random() < self.stall

    def _due(self, cycle: int, latency: int) -> int:
        extra = int(self.rng.integers(0, self.extra_latency + 1)) if self.extra_latency else 0
        return cycle + latency + extra

    def _burst(self, payload: dict[str, int], cycle: int, latency: int) -> Burst:
        size = self.variant.bus_bytes
        beats = payload["len"] + 1
        address = payload["addr"]
        assert beats <= MAX_BURST_BEATS, f"a burst of {beats} beats"
        assert address % size == 0, f"address {address:#x} is not a whole bus word"
        end = address + beats * size - 1
        assert address // PAGE_BYTES == end // PAGE_BYTES, f"{address:#x} to {end:#x} crosses 4 KiB"
        assert end < self.data.size, f"{end:#x} is outside memory"
        return Burst(cycle, payload["id"], address, beats, due=self._due(cycle, latency))

    def word(self, address: int) -> int:
        """Bus word at a byte address."""
        return int.from_bytes(
            self.data[address : address + self.variant.bus_bytes].tobytes(), "little"
        )

    def reads(self, ar: Any, r: Any) -> Callable:
        """Background testbench that serves AR and R."""

        async def bench(ctx: Any) -> None:
            cycle = 0
            queue: list[Burst] = []
            waiting_ar = None
            offered: Burst | None = None
            while True:
                accept = not self.silent and not self._stalls()
                ctx.set(ar.ready, accept)
                if offered is None and not self.silent and not self._stalls():
                    offered = self._choose(queue, cycle)
                    if offered is not None:
                        address = offered.address + offered.served * self.variant.bus_bytes
                        ctx.set(
                            r.payload,
                            {
                                "id": offered.id,
                                "data": self.word(address),
                                "resp": self.read_errors.get(address, 0),
                                "last": offered.served == offered.beats - 1,
                            },
                        )
                ctx.set(r.valid, offered is not None)
                _, _, valid, payload, ready = await ctx.tick().sample(ar.valid, ar.payload, r.ready)
                item = plain(payload)
                if waiting_ar is not None:
                    assert valid and item == waiting_ar, "AR changed before ARREADY"
                waiting_ar = item if valid and not accept else None
                assert ready, "RREADY must always be 1: space is reserved before AR"
                if offered is not None:
                    self.beats_read += 1
                    offered.served += 1
                    if offered.served == offered.beats:
                        queue.remove(offered)
                    offered = None
                if valid and accept:
                    burst = self._burst(item, cycle, self.read_latency)
                    queue.append(burst)
                    self.bursts_read.append(burst)
                    self.most_open_reads = max(self.most_open_reads, len(queue))
                    assert len(queue) <= self.variant.bus.read_bursts, "too many open reads"
                cycle += 1

        return bench

    def _choose(self, queue: list[Burst], cycle: int) -> Burst | None:
        """The burst whose beat comes next: the oldest, or the oldest of a random ID."""
        if not queue:
            return None
        choices = [queue[0]]
        if self.interleave:
            choices = list({burst.id: burst for burst in reversed(queue)}.values())
        burst = choices[int(self.rng.integers(len(choices)))] if len(choices) > 1 else choices[0]
        return burst if burst.due <= cycle else None

    def writes(self, aw: Any, w: Any, b: Any) -> Callable:
        """Background testbench that serves AW, W and B."""

        async def bench(ctx: Any) -> None:
            cycle = 0
            size = self.variant.bus_bytes
            filling: list[Burst] = []
            answering: list[Burst] = []
            waiting_aw = waiting_w = None
            offered = False
            while True:
                accept = not self.silent and not self._stalls()
                ctx.set(aw.ready, accept)
                take = bool(filling) and not self.silent and not self._stalls()
                ctx.set(w.ready, take)
                if not offered and answering and answering[0].due <= cycle:
                    offered = not self.silent and not self._stalls()
                if offered:
                    head = answering[0]
                    resp = self.write_errors.get(head.address, 0)
                    ctx.set(b.payload, {"id": head.id, "resp": resp})
                ctx.set(b.valid, offered)
                _, _, aw_valid, aw_payload, w_valid, w_payload, b_ready = await ctx.tick().sample(
                    aw.valid, aw.payload, w.valid, w.payload, b.ready
                )
                address, word = plain(aw_payload), plain(w_payload)
                if waiting_aw is not None:
                    assert aw_valid and address == waiting_aw, "AW changed before AWREADY"
                if waiting_w is not None:
                    assert w_valid and word == waiting_w, "W changed before WREADY"
                waiting_aw = address if aw_valid and not accept else None
                waiting_w = word if w_valid and not take else None
                assert b_ready, "BREADY must always be 1"
                if offered:
                    answering.pop(0)
                    offered = False
                if w_valid and take:
                    head = filling[0]
                    self._write(head.address + head.served * size, word)
                    self.beats_written += 1
                    head.served += 1
                    assert word["last"] == (head.served == head.beats), "WLAST at the wrong beat"
                    if head.served == head.beats:
                        head.due = self._due(cycle, self.write_latency)
                        answering.append(filling.pop(0))
                if aw_valid and accept:
                    burst = self._burst(address, cycle, 0)
                    filling.append(burst)
                    self.bursts_written.append(burst)
                    open_writes = len(filling) + len(answering)
                    self.most_open_writes = max(self.most_open_writes, open_writes)
                    assert open_writes <= self.variant.bus.write_bursts, "too many open writes"
                cycle += 1

        return bench

    def _write(self, address: int, word: dict[str, int]) -> None:
        size = self.variant.bus_bytes
        new = np.frombuffer(word["data"].to_bytes(size, "little"), dtype=np.uint8)
        mask = np.array([word["strb"] >> byte & 1 for byte in range(size)], dtype=bool)
        self.data[address : address + size][mask] = new[mask]
