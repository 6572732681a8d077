"""Requests of any length and alignment -> AXI4 INCR bursts.

Input: a stream of `read_request`s (word address, beats). Output: a stream of bursts of at most 32
beats that never cross 4 KiB.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.contracts import checks_contracts, contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import read_request
from daedal.hw.parts.skid import SkidBuffer
from daedal.isa.latencies import MAX_BURST_BEATS, PAGE_BYTES
from daedal.isa.variant import Variant

__all__ = ["BurstSplitter", "burst_layout"]


def burst_layout(variant: Variant) -> data.StructLayout:
    """A burst: word address, beats (1 to 32), and whether it ends its request."""
    request = read_request(variant).members["payload"].shape
    return data.StructLayout(
        {
            "address": request["address"].shape,
            "beats": MAX_BURST_BEATS.bit_length(),
            "last": 1,
        }
    )


class BurstSplitter(wiring.Component):
    """Split requests into bursts, one per cycle, without a gap between requests.

    A burst is as long as it can be: up to 32 beats, the rest of the request, or the rest of the
    4 KiB page. A request of 0 beats breaks the contract of `read_request` and is never given.

    There is no combinational path between the two sides. A request that arrives while the current
    one has bursts left waits in a second register, and so does a burst behind one that is not
    accepted. The comparisons that decide a burst's length are made one cycle early and registered.

    Parameters
    ----------
    variant
        Gives the bus width (beats of a page) and the address width.

    Members
    -------
    i : ``In(read_request(variant))``, `i.ready` is a registered output.
    o : ``Out(stream.Signature(burst_layout(variant)))``, registered outputs.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._page_bits = (PAGE_BYTES // variant.bus_bytes - 1).bit_length()
        super().__init__(
            {"i": In(read_request(variant)), "o": Out(stream.Signature(burst_layout(variant)))}
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        layout = _rest_layout(self.i.payload.shape())
        arriving, rest, waiting = (
            Signal(layout, name=name, reset_less=True) for name in ("arriving", "rest", "waiting")
        )
        following = Signal(layout)
        self._classify(m, arriving)
        self._follow(m, rest, following)

        over = Mux(rest.request.beats[_BLOCK_BITS], rest.offset, rest.carries)
        last = Signal()
        m.d.comb += last.eq(~rest.long & ~(rest.near_end & over))
        low = rest.request.address[:_BLOCK_BITS]
        limit = Mux(rest.near_end, MAX_BURST_BEATS - low, MAX_BURST_BEATS)

        active, waits = Signal(), Signal()
        m.submodules.offer = offer = SkidBuffer(self.o.payload.shape())
        connect(m, offer.o, flipped(self.o))
        burst = offer.i.payload
        # `room` is the inverse of `waits`: `waits` drives the wide mux, `room` drives `i.ready`.
        room = Signal(init=1)
        m.d.comb += [
            offer.i.valid.eq(active),
            burst.address.eq(rest.request.address),
            burst.beats.eq(Mux(last, rest.request.beats[: _BLOCK_BITS + 1], limit)),
            burst.last.eq(last),
            self.i.ready.eq(room),
        ]
        advance = offer.i.ready
        take = ~active | (advance & last)
        with m.If(take):
            m.d.sync += [active.eq(waits | self.i.valid), waits.eq(0), room.eq(1)]
        with m.Elif(self.i.valid):
            m.d.sync += [waits.eq(1), room.eq(0)]
        with m.If(~waits):
            m.d.sync += waiting.eq(arriving)
        with m.If(advance | ~active):
            m.d.sync += rest.eq(Mux(active & ~last, following, Mux(waits, waiting, arriving)))
        if checks_contracts(platform):
            self._check(m, platform, active, burst)
            for some, held in ((active, rest), (waits, waiting)):
                meant = self._is_classified(held)
                contract(m, platform, ~some | meant, "flags must say what is left")
            contract(m, platform, room != waits, "there must be room where no request waits")
            contract(m, platform, ~waits | active, "a request must wait behind another one")
        return m

    def _is_classified(self, held: data.View) -> Value:
        """Whether the flags of the current request are as `_rest_layout` defines them."""
        address, beats = held.request.address, held.request.beats
        low, few = address[:_BLOCK_BITS], beats[:_BLOCK_BITS]
        flags = Cat(held.near_end, held.long, held.offset, held.carries)
        meant = Cat(
            address[_BLOCK_BITS : self._page_bits].all(),
            beats > MAX_BURST_BEATS,
            low.any() | few.any(),
            low + few > MAX_BURST_BEATS,
        )
        return (flags == meant) & (beats != 0)

    def _check(self, m: Module, platform: Platform, active: Signal, burst: data.View) -> None:
        """Contracts on incoming requests and outgoing bursts."""
        given = self.i.payload.beats != 0
        size = (burst.beats != 0) & (burst.beats <= MAX_BURST_BEATS)
        within = burst.address[: self._page_bits] + burst.beats <= 1 << self._page_bits
        for holds, rule in (
            (~self.i.valid | given, "a request of 0 beats must never be given"),
            (~active | size, "a burst must have 1 to 32 beats"),
            (~active | within, "a burst must not cross 4 KiB"),
        ):
            contract(m, platform, holds, rule)

    def _classify(self, m: Module, arriving: data.View) -> None:
        """Flags of an arriving request."""
        address, beats = self.i.payload.address, self.i.payload.beats
        within = address[:_BLOCK_BITS] + beats[:_BLOCK_BITS]
        m.d.comb += [
            arriving.request.eq(self.i.payload),
            arriving.near_end.eq(address[_BLOCK_BITS : self._page_bits].all()),
            arriving.long.eq(beats > MAX_BURST_BEATS),
            arriving.offset.eq(address[:_BLOCK_BITS].any() | beats[:_BLOCK_BITS].any()),
            arriving.carries.eq(within > MAX_BURST_BEATS),
        ]

    def _follow(self, m: Module, rest: data.View, following: data.View) -> None:
        """What is left of `rest` after a burst that is not its last."""
        address, beats = rest.request.address, rest.request.beats
        low, few = address[:_BLOCK_BITS], beats[:_BLOCK_BITS]
        blocks, block = beats[_BLOCK_BITS:], address[_BLOCK_BITS : self._page_bits]
        within = Signal(_BLOCK_BITS + 1)
        # Where the block number has no bits, the page is a single block.
        before_end = (block == (1 << len(block)) - 2) if len(block) else Const(1)
        m.d.comb += [
            within.eq(low + few),
            following.request.address.eq(
                Cat(Mux(rest.near_end, 0, low), address[_BLOCK_BITS:] + 1)
            ),
            following.request.beats.eq(
                Cat(
                    Mux(rest.near_end, within[:_BLOCK_BITS], few),
                    Mux(rest.near_end & within[_BLOCK_BITS], blocks, blocks - 1),
                )
            ),
            following.near_end.eq(before_end & (~rest.near_end | (len(block) == 0))),
            following.long.eq(
                (blocks > 2)
                | ((blocks == 2) & Mux(rest.near_end, rest.offset, few.any()))
                | ((blocks == 1) & rest.near_end & rest.carries)
            ),
            following.offset.eq(Mux(rest.near_end, within[:_BLOCK_BITS].any(), rest.offset)),
            following.carries.eq(~rest.near_end & rest.carries),
        ]


_BLOCK_BITS = (MAX_BURST_BEATS - 1).bit_length()


def _rest_layout(request: data.StructLayout) -> data.StructLayout:
    """What is left of a request, and the flags that decide the length of its next burst.

    `near_end`: it begins in the last 32 words of a page, the only place from which the page's end
    can be fewer than 32 beats away. `long`: more than 32 beats are left. `offset` and `carries`
    describe the sum of the low five bits of address and beats: it is not 0; it is more than 32. A
    burst of 32 or fewer beats crosses the end of its block of 32 words if `offset` is set (for 32
    beats) or `carries` is set (for fewer).
    """
    return data.StructLayout(
        {"request": request, "near_end": 1, "long": 1, "offset": 1, "carries": 1}
    )
