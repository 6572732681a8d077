"""What a memory gives a board: the seam between the board and its memory or controller.

`memory_slave.MemorySlave` implements it for block RAM, `sdram.controller.SdramController` for SDR
SDRAM. A board with DDR3 would implement it
around LiteDRAM's core: the five channels are its AXI4 port, and the host's accesses go to a second
port of its crossbar, one at a time.
"""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Member, Out

from daedal.hw.bus.axi import address_channel, read_channel, response_channel, write_channel
from daedal.isa.variant import Variant

__all__ = ["host_access", "memory_port"]


def host_access(variant: Variant, num_words: int) -> wiring.Signature:
    """One access of the host, seen from the host: a pulse of `valid` is accepted while `ready`.

    On-chip memory is always ready; SDRAM has one access at a time (`sdram.controller`).

    `strobes` are the byte enables of a write; all zero means a read, whose word comes with a pulse
    of `word_valid`.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "ready": In(1),
            "address": Out(range(num_words)),
            "strobes": Out(variant.bus_bytes),
            "data": Out(variant.bus.data_bits),
            "word_valid": In(1),
            "word": In(variant.bus.data_bits),
        }
    )


def memory_port(variant: Variant, num_words: int) -> dict[str, Member]:
    """Members of a controller of `num_words` bus words, in the clock domain `sync`.

    1. `ar`, `r`, `aw`, `w`, `b`: INCR bursts of whole bus words, aligned, of 1 to 256 words, none
       across 4 KiB. Bursts beyond the memory get DECERR, and change nothing. A read whose AR comes
       after the B of a write sees what was written.
    2. `host`: `host_access`. An access follows those that were accepted before it, and
       may wait for a burst of the machine.
    3. `machine_reset`: while 1, and a cycle longer, bursts of the machine are forgotten, in the
       middle if need be: a write has then changed some of its words. Memory and the host's access
       are not affected, and no handshake of before is answered later.
    4. Until the memory is initialized, bursts and accesses wait.

    Source: IHI 0022, A3.3 (a B follows the last W), A3.4.1 (bursts), A3.4.4 (DECERR).
    """
    address = stream.Signature(address_channel(variant))
    return {
        "ar": In(address),
        "r": Out(stream.Signature(read_channel(variant))),
        "aw": In(address),
        "w": In(stream.Signature(write_channel(variant))),
        "b": Out(stream.Signature(response_channel())),
        "host": In(host_access(variant, num_words)),
        "machine_reset": In(1),
    }
