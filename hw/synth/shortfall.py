"""Resources of a device that a variant exceeds, and the parameters that would change that.

Input: a variant and the `CellReport` of its estimate. Output: a `Shortfall` per resource. Remedies
are parameters of a variant that can be built, with what they would leave by the estimate's own
counts; only another estimate tells the rest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from daedal.common.errors import VariantError
from daedal.hw.synth.families import DEVICES, HARD_LIMIT, RESOURCES, CellReport
from daedal.hw.synth.scratchpad_rams import UNITS_OF_SCRATCHPADS, halving_frees
from daedal.isa.variant import MultiplierStyle, Variant

__all__ = ["Shortfall", "shortfalls"]

_LANES = ("alu_lanes", "requantize_lanes")


@dataclass(frozen=True)
class Shortfall:
    """One resource of which there is too little: needed, what may be taken, and what would help."""

    resource: str
    needed: float
    usable: int
    remedy: str

    @property
    def sentence(self) -> str:
        """Which resource, by how much, and what would make it fit."""
        missing = self.needed - self.usable
        return (
            f"{RESOURCES[self.resource]} must be at most {self.usable:,}, not {self.needed:,.10g} "
            f"({missing:,.10g} too many); {self.remedy}"
        )


def shortfalls(
    variant: Variant,
    report: CellReport,
    limit: float = HARD_LIMIT,
    placed: Mapping[str, int] | None = None,
) -> list[Shortfall]:
    """What does not fit the device of `report`, an estimate of `variant`; nothing where it fits.

    `limit` is the part of the hard blocks that may be taken; `placed` what is needed by resource
    where place and route found that it is more.
    """
    found = []
    for resource, usable in report.usable(limit).items():
        needed = (placed or {}).get(resource, getattr(report, resource))
        if needed > usable:
            if resource == "dsp":
                remedy = _fewer_multipliers(variant, needed, usable)
            elif resource == "block_ram":
                remedy = _less_memory(variant, report, usable)
            else:
                remedy = _less_logic(variant, report)
            found.append(Shortfall(resource, needed, usable, remedy))
    return found


def _fewer_multipliers(variant: Variant, needed: int, usable: int) -> str:
    """Other multiplier styles that fit, and the largest smaller array that does."""
    others = needed - _array_multipliers(variant)
    choices = []
    for style in (MultiplierStyle.PACKED, MultiplierStyle.LUT):
        changed = _changed(variant, multiplier_style=style.value)
        if changed is not None and style is not variant.array.style:
            left = others + _array_multipliers(changed)
            cost = " and takes LUTs instead" if style is MultiplierStyle.LUT else ""
            if left <= usable:
                choices.append(f'multiplier_style = "{style.value}" leaves about {left:,}{cost}')
    for smaller in _smaller_arrays(variant):
        left = others + _array_multipliers(smaller)
        if left <= usable:
            choices.append(f"{_array_of(smaller, variant)} leaves about {left:,}")
            break
    return ", or ".join(choices) or "a larger device has more"


def _less_memory(variant: Variant, report: CellReport, usable: int) -> str:
    """Halve what frees most, the largest scratchpad first, until it fits."""
    units = report.unit_resources
    blocks = {
        memory: units[unit]["block_ram"]
        for memory, unit in UNITS_OF_SCRATCHPADS.items()
        if unit in units
    }
    largest = max(blocks, key=lambda memory: blocks[memory])
    text = f"the largest scratchpad is {largest} with {blocks[largest]:,.10g}"
    left, changed, halved = report.block_ram, variant, dict[str, int]()
    while left > usable:
        for memory in sorted(blocks, key=lambda memory: -blocks[memory]):
            key = f"{memory}_bytes"
            smaller = _changed(changed, **{key: getattr(changed.memory, key) // 2})
            if smaller is not None and halving_frees(changed, memory):
                blocks[memory] /= 2
                left -= blocks[memory]
                changed, halved[key] = smaller, getattr(smaller.memory, key)
                break
        else:
            break
    if halved:
        steps = " and ".join(f"{key} = {size:_}" for key, size in halved.items())
        text += f": {steps} leaves about {left:,.10g}"
    if left > usable:
        text += (
            "; fewer bytes alone are not enough: a smaller array has narrower rows "
            f"({_array_of(variant, variant)} now)"
        )
    return text


def _less_logic(variant: Variant, report: CellReport) -> str:
    """Parameters that take logic, largest first; how much is not known before it is tried."""
    choices = []
    units = variant.units
    multipliers = report.dsp - _array_multipliers(variant) + variant.macs_per_cycle
    if variant.array.style is not MultiplierStyle.DSP and multipliers <= report.usable()["dsp"]:
        choices.append(f'multiplier_style = "dsp" (takes {multipliers:,} DSP)')
    choices += [_array_of(smaller, variant) for smaller in islice(_smaller_arrays(variant), 1)]
    for key in _LANES:
        lanes = getattr(units, key) // 2
        if _changed(variant, **{key: lanes}) is not None:
            choices.append(f"{key} = {lanes}")
    if not choices:
        return f"{DEVICES[report.family].name} is too small for any machine like it"
    return f"what takes less, by an estimate of its own: {', or '.join(choices)}"


def _array_multipliers(variant: Variant) -> int:
    """Hardware multipliers of the array."""
    if variant.array.style is MultiplierStyle.LUT:
        return 0
    return variant.macs_per_cycle // variant.array.outputs_per_activation


def _smaller_arrays(variant: Variant) -> Iterator[Variant]:
    """The same machine with both sides of its array halved, again and again."""
    block_in, block_out = variant.array.block_in, variant.array.block_out
    while block_in > 1 and block_out > 1:
        block_in, block_out = block_in // 2, block_out // 2
        lanes = {
            key: min(getattr(variant.units, key), variant.array.batch * block_out) for key in _LANES
        }
        smaller = _changed(variant, block_in=block_in, block_out=block_out, **lanes)
        if smaller is not None:
            yield smaller


def _array_of(variant: Variant, before: Variant) -> str:
    """Sides of the array, and the lanes where they had to become fewer than `before`."""
    sides = [f"{key} = {getattr(variant.array, key)}" for key in ("block_in", "block_out")]
    lanes = [
        f"{key} = {getattr(variant.units, key)}"
        for key in _LANES
        if getattr(variant.units, key) != getattr(before.units, key)
    ]
    return " and ".join([*sides, *lanes])


def _changed(variant: Variant, **changes: int | str) -> Variant | None:
    """`variant` with parameters changed, or None where that cannot be built."""
    try:
        return variant.replace(None, **changes)
    except VariantError:
        return None
