"""Reads a section of a variant's TOML file into its dataclass; refuses what is not of it.

Input: the values of TOML. Output: the dataclass, or a VariantError that names the file, the section
and the key.
"""

import typing
from collections.abc import Callable
from typing import Any, TypeVar

from daedal.common.errors import VariantError

__all__ = ["made", "read_section", "shown"]

_T = TypeVar("_T")

_MAX_NUMBER = (1 << 63) - 1
"""Largest integer in TOML 1.0; Python reads larger ones, and cannot print very large ones."""

_MAX_SHOWN = 80


def made(kind: Callable[..., _T], source: str, **values: Any) -> _T:
    """A part of a variant. A rule that it breaks is told with the file."""
    try:
        return kind(**values)
    except VariantError as error:
        raise VariantError(f"{source}: {error}") from error


def read_section(kind: type, section: str, values: object, source: str) -> Any:
    """The section `kind`, which the file has under the name `section`. Raises VariantError for
    unknown keys and wrong types."""
    if not isinstance(values, dict):
        raise VariantError(f"{source}: [{section}] must be a table, not {shown(values)}")
    types_by_name = typing.get_type_hints(kind)
    for key, value in values.items():
        if key not in types_by_name:
            known = ", ".join(types_by_name)
            raise VariantError(f"{source}: [{section}] has no key {shown(key)}; it has {known}")
        if type(value) is not types_by_name[key]:
            raise VariantError(
                f"{source}: {section}.{key} must be of type {types_by_name[key].__name__}, "
                f"not {shown(value)}"
            )
        if isinstance(value, int) and abs(value) > _MAX_NUMBER:
            raise VariantError(f"{source}: {section}.{key} must be at most {_MAX_NUMBER}")
    return made(kind, source, **values)


def shown(value: object) -> str:
    """A value of the file for a message, shortened if necessary."""
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        return "a number of more than 64 bits"
    return repr(value)[:_MAX_SHOWN]
