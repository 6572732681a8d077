"""`Workload`: what was tuned, a kind of layer, with a key made from its content.

Descriptions come from files of others, so they are checked and bounded.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daedal.common.errors import TuningError

__all__ = ["Workload", "parse_json", "shown"]

MAX_DESCRIPTION_BYTES = 1 << 14


@dataclass(frozen=True)
class Workload:
    """A kind of layer: everything that its code depends on, as canonical JSON.

    Scales, zero points and multipliers do not belong here: layers that differ in nothing else have
    the same code and the same cycles.
    """

    text: str
    """The description: JSON with sorted keys and without blanks."""

    @classmethod
    def of(
        cls,
        operator: str,
        *,
        attributes: Mapping[str, Any],
        shapes: Mapping[str, Sequence[int]],
        layouts: Mapping[str, str],
    ) -> "Workload":
        """From the operator, the attributes that change its code, and its tensors by name.

        Raises TuningError as `from_json`.
        """
        return cls.from_json(
            {
                "operator": operator,
                "attributes": dict(attributes),
                "shapes": {name: list(shape) for name, shape in shapes.items()},
                "layouts": dict(layouts),
            }
        )

    @classmethod
    def from_json(cls, description: Any) -> "Workload":
        """The workload of a description.

        Raises
        ------
        TuningError
            It is no object of plain JSON data, or longer than 16 KiB.
        """
        try:
            # Keys that are no strings would become strings, and the text another description.
            if not isinstance(description, dict) or not _is_plain(description):
                raise ValueError("it is none")
            text = json.dumps(description, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise TuningError(
                "a workload must be described by an object of plain JSON data, not "
                f"{shown(description)}"
            ) from error
        if len(text) > MAX_DESCRIPTION_BYTES:
            raise TuningError(
                f"a workload's description must have at most {MAX_DESCRIPTION_BYTES} bytes, not "
                f"{len(text)}"
            )
        return cls(text)

    @property
    def key(self) -> str:
        """SHA-256 of the description, in hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def description(self) -> dict[str, Any]:
        """The description as plain data."""
        data: dict[str, Any] = json.loads(self.text)
        return data


def parse_json(text: Any) -> Any:
    """Plain data from what should be a JSON text. Raises TuningError if it is none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (TypeError, ValueError, RecursionError) as error:
        raise TuningError(f"a record must be JSON, not {shown(text)}") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _is_plain(data: object) -> bool:
    if isinstance(data, dict):
        return all(isinstance(key, str) and _is_plain(value) for key, value in data.items())
    if isinstance(data, list | tuple):
        return all(map(_is_plain, data))
    if isinstance(data, float):
        return math.isfinite(data)
    return data is None or isinstance(data, str | int)


def shown(value: object) -> str:
    """The beginning of a value, for a message."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):  # integers of thousands of digits, deep nesting
        return f"a {type(value).__name__}"
