"""Pipeline registers: delay values by a fixed number of cycles."""

from amaranth.hdl import Module, Signal, ValueLike

from daedal.hw.contracts import require_at_elaboration

__all__ = ["delay", "register"]


def register(m: Module, value: ValueLike, *, name: str, reset_less: bool = True) -> Signal:
    """`value` one cycle later, in a signal of the same shape.

    Control bits (valid, enable) need ``reset_less=False``; the initial value of data does not
    matter.
    """
    shape = value.shape()
    held = Signal(shape, name=name, reset_less=reset_less)
    m.d.sync += held.eq(value)
    return held


def delay(
    m: Module, value: ValueLike, cycles: int, *, name: str, reset_less: bool = True
) -> ValueLike:
    """`value` exactly `cycles` cycles later; 0 gives `value` itself.

    Raises ElaborationError if `cycles` is negative: the value would be needed before it exists.
    """
    require_at_elaboration(cycles >= 0, f"{name} must not be delayed by {cycles} cycles")
    for age in range(1, cycles + 1):
        value = register(m, value, name=f"{name}_{age}", reset_less=reset_less)
    return value
