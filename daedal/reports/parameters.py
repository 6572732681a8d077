"""Parameters of variants as text, and those that differ between several."""

from collections.abc import Sequence
from dataclasses import asdict

from daedal.codesign.search.variant_space import Value
from daedal.isa.variant import Variant

__all__ = ["differing_parameters", "parameters_by_section", "value_text"]


def differing_parameters(variants: Sequence[Variant]) -> dict[str, list[Value]]:
    """The values of the parameters that differ, by ``section.name``."""
    every = [parameters_by_section(variant) for variant in variants]
    found = {
        f"{section}.{name}": [item[section][name] for item in every]
        for section, values in (every[0] if every else {}).items()
        for name in values
    }
    return {name: values for name, values in found.items() if len(set(values)) > 1}


def parameters_by_section(variant: Variant) -> dict[str, dict[str, Value]]:
    """All of them, by section and name."""
    return {name: found for name, found in asdict(variant).items() if name != "name"}


def value_text(value: Value) -> str:
    """A value for people: 131,072, yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
