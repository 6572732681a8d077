"""Figures of merit, defined once for our accelerators and for those of others.

Input: what was measured or published. Output: numbers, or None where what they need is not known.
"""

__all__ = ["frames_per_second", "gops_per_klut", "peak_gops"]


def peak_gops(macs_per_cycle: int | None, clock_mhz: float | None) -> float | None:
    """Billions of operations per second at most; a multiply-accumulate is two of them."""
    if macs_per_cycle is None or clock_mhz is None:
        return None
    return 2 * macs_per_cycle * clock_mhz / 1000


def gops_per_klut(gops: float | None, lut: int | None) -> float | None:
    """Peak GOPS for each thousand look-up tables, of as many inputs as the device has."""
    return None if gops is None or lut is None else 1000 * gops / lut


def frames_per_second(cycles: int | None, clock_mhz: float | None) -> float | None:
    """Images per second, one after the other, when each takes so many cycles."""
    return None if cycles is None or clock_mhz is None else clock_mhz * 1e6 / cycles
