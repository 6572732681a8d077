"""Names the parts that an operator needs and a variant lacks, and the variants that have them."""

from collections.abc import Callable, Mapping
from functools import cache

from daedal.compiler.ops.accelerator.vector.rows import ROW_NEEDS
from daedal.isa.variant import Variant, load_variant, shipped_variants

__all__ = ["ROWS", "TABLES", "WIDE", "has_parts", "names_lacking", "shipped_machines"]

Needs = Mapping[str, Callable[[Variant], bool]]
"""The parts, in words, and whether a variant has each."""

ROWS: Needs = ROW_NEEDS
TABLES: Needs = {"tables (memory.tables)": lambda variant: variant.memory.tables > 0}
WIDE: Needs = {
    "results of 16 bits (units.wide_requantize)": lambda variant: (
        variant.units.wide_requantize and variant.array.accumulator_bits == 32
    )
}


def has_parts(variant: Variant, needs: Needs) -> bool:
    """Whether a variant has all that is needed."""
    return all(has(variant) for has in needs.values())


@cache
def shipped_machines() -> dict[str, Variant]:
    """The shipped variants by name, read once."""
    return {name: load_variant(name) for name in shipped_variants()}


def names_lacking(variant: Variant, needs: Needs) -> tuple[str, str]:
    """What `variant` lacks, as an enumeration, and which shipped variants have all, in parentheses;
    empty if there is none."""
    *first, last = [name for name, has in needs.items() if not has(variant)]
    lacking = f"{', '.join(first)} or {last}" if first else last
    names = [name for name, variant in shipped_machines().items() if has_parts(variant, needs)]
    return lacking, f" (variants that have it: {', '.join(names)})" if names else ""
