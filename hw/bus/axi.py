"""AXI4 and AXI4-Lite at the edge of the machine: channel layouts, and pins with standard names.

Inside, each channel is one `stream.Signature` of the fields that vary. At the pins the constant
fields are added: INCR bursts of whole bus words, normal non-cacheable bufferable memory, no locks.

Source: AMBA AXI and ACE Protocol Specification (ARM IHI 0022), chapters A2 (signals), A3 (channel
rules) and B1 (AXI4-Lite).
"""

from amaranth.hdl import Module, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.isa.variant import Variant

__all__ = [
    "ID_BITS",
    "address_channel",
    "axi4_lite_pins",
    "axi4_pins",
    "connect_axi4_pins",
    "read_channel",
    "response_channel",
    "write_channel",
]

ID_BITS = 1
"""Two readers and two writers: reads 0 FETCH, 1 LOAD; writes 0 STORE, 1 marks."""

_INCR = 0b01
_CACHE = 0b0011  # normal, non-cacheable, bufferable
_PROT = 0b000  # unprivileged, secure, data

_CONSTANT_FIELDS = {
    "size": 3,
    "burst": 2,
    "lock": 1,
    "cache": 4,
    "prot": 3,
    "qos": 4,
}


def address_channel(variant: Variant) -> data.StructLayout:
    """What varies in AR and AW: ID, byte address, and beats minus one."""
    return data.StructLayout({"id": ID_BITS, "addr": variant.bus.address_bits, "len": 8})


def read_channel(variant: Variant) -> data.StructLayout:
    """R: one bus word, RRESP, and whether it is the last of its burst."""
    return data.StructLayout({"id": ID_BITS, "data": variant.bus.data_bits, "resp": 2, "last": 1})


def write_channel(variant: Variant) -> data.StructLayout:
    """W: one bus word, one strobe per byte, and whether it is the last of its burst."""
    return data.StructLayout({"data": variant.bus.data_bits, "strb": variant.bus_bytes, "last": 1})


def response_channel() -> data.StructLayout:
    """B: ID and BRESP of a burst."""
    return data.StructLayout({"id": ID_BITS, "resp": 2})


def _channels(variant: Variant) -> dict[str, tuple[data.StructLayout, bool]]:
    """Layout of each channel by its pin prefix, and whether the master sends it."""
    address = address_channel(variant)
    return {
        "aw": (address, True),
        "w": (write_channel(variant), True),
        "b": (response_channel(), False),
        "ar": (address, True),
        "r": (read_channel(variant), False),
    }


def axi4_pins(variant: Variant, prefix: str) -> dict[str, wiring.Member]:
    """Pins of the AXI4 master, to be members of the top: `prefix` + ``awaddr``, ..."""
    pins = {}
    for channel, (layout, sends) in _channels(variant).items():
        forward, backward = (Out, In) if sends else (In, Out)
        for name, field in layout:
            pins[f"{prefix}{channel}{name}"] = forward(field.shape)
        if channel in ("aw", "ar"):
            for name, width in _CONSTANT_FIELDS.items():
                pins[f"{prefix}{channel}{name}"] = forward(width)
        pins[f"{prefix}{channel}valid"] = forward(1)
        pins[f"{prefix}{channel}ready"] = backward(1)
    return pins


def connect_axi4_pins(
    m: Module,
    top: wiring.Component,
    prefix: str,
    variant: Variant,
    quiet: Value,
    **channels: stream.Interface,
) -> None:
    """Wire the masters' streams `aw`, `w`, `b`, `ar` and `r` to the pins of `top`.

    While `quiet` is set, no VALID and no READY is.
    """
    size = variant.word_offset_bits
    constants = {
        "size": size,
        "burst": _INCR,
        "lock": 0,
        "cache": _CACHE,
        "prot": _PROT,
        "qos": 0,
    }
    for channel, (layout, sends) in _channels(variant).items():
        ours = channels[channel]

        def pin(name: str, channel: str = channel) -> Value:
            return getattr(top, f"{prefix}{channel}{name}")

        for name, _ in layout:
            inside = getattr(ours.payload, name)
            m.d.comb += pin(name).eq(inside) if sends else inside.eq(pin(name))
        if channel in ("aw", "ar"):
            m.d.comb += [pin(name).eq(value) for name, value in constants.items()]
        if sends:
            m.d.comb += [pin("valid").eq(ours.valid & ~quiet), ours.ready.eq(pin("ready"))]
        else:
            m.d.comb += [ours.valid.eq(pin("valid")), pin("ready").eq(ours.ready & ~quiet)]


def axi4_lite_pins(address_bits: int, prefix: str) -> dict[str, wiring.Member]:
    """Pins of a 32-bit AXI4-Lite slave, named `prefix` + ``awaddr``, ..."""
    return {
        f"{prefix}{name}": member
        for name, member in {
            "awaddr": In(address_bits),
            "awprot": In(3),
            "awvalid": In(1),
            "awready": Out(1),
            "wdata": In(32),
            "wstrb": In(4),
            "wvalid": In(1),
            "wready": Out(1),
            "bresp": Out(2),
            "bvalid": Out(1),
            "bready": In(1),
            "araddr": In(address_bits),
            "arprot": In(3),
            "arvalid": In(1),
            "arready": Out(1),
            "rdata": Out(32),
            "rresp": Out(2),
            "rvalid": Out(1),
            "rready": In(1),
        }.items()
    }
