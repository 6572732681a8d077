"""Pipeline registers: values that travel beside each other through a fixed number of cycles."""

from amaranth.hdl import Module, Signal, ValueLike

from daedal.hw.contracts import require_at_elaboration

__all__ = ["delay", "register"]


def register(m: Module, value: ValueLike, *, name: str, reset_less: bool = True) -> Signal:
    """`value` one cycle later, in a signal of the same shape.

    Control bits (valid, enable) need ``reset_less=False``; data does not care what it starts with.
    """
    shape = value.shape()
    held = Signal(shape, name=name, reset_less=reset_less)
    m.d.sync += held.eq(value)
    return held


def delay(
    m: Module, value: ValueLike, cycles: int, *, name: str, reset_less: bool = True
) -> ValueLike:
    """`value` exactly `cycles` cycles later; 0 gives `value` itself.

    Raises ElaborationError where `cycles` is negative: the value is wanted before it is there.
    """
    require_at_elaboration(cycles >= 0, f"{name} must not be delayed by {cycles} cycles")
    for age in range(1, cycles + 1):
        value = register(m, value, name=f"{name}_{age}", reset_less=reset_less)
    return value
