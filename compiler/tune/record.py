"""`Record`: one measured configuration of a workload.

Records come from files of others, so every field is checked and bounded when one is made.
"""

import math
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from daedal.common.errors import ScheduleError, TuningError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.workload import Workload, shown

__all__ = ["UNVERIFIED", "Record", "kit_version"]

MAX_NAME_LENGTH = 100
MAX_KNOBS = 64
MAX_INTEGER = (1 << 63) - 1

UNVERIFIED = "unverified"
"""The failure of a configuration that another version of the kit measured: not measured yet."""

_SETTING = ("fingerprint", "memory", "target", "kit")
_OUTCOME = ("cycles", "when", "failure", "limit_seconds")
_FIELDS = ("workload", "description", *_SETTING, "config", *_OUTCOME)


def kit_version() -> str:
    """The version of the installed Daedal. Cycles of other versions are not comparable."""
    return version("daedal")


def _now() -> int:
    return int(time.time())


@dataclass(frozen=True)
class Record:
    """The cycles of one configuration of a workload, on one variant with one memory.

    Raises TuningError if a field has another type than declared, or is beyond its bounds.
    """

    workload: Workload
    fingerprint: str
    """Of the variant."""
    memory: str
    """Preset of the memory model."""
    target: str
    """What runs the code, such as ``accelerator``."""
    config: Config
    cycles: int | None
    """None if the configuration could not be built or run."""
    kit: str = field(default_factory=kit_version)
    when: int = field(default_factory=_now)
    """Seconds since 1970, UTC."""
    failure: str = ""
    """Why there are no cycles, such as ``timed out``; empty where there are, or it is not known."""
    limit_seconds: float = 0
    """What a configuration that timed out could take; 0 for others."""

    def __post_init__(self) -> None:
        for name in _SETTING:
            value = getattr(self, name)
            if not (
                isinstance(value, str)
                and 1 <= len(value) <= MAX_NAME_LENGTH
                and value.isascii()
                and value.isprintable()
            ):
                raise TuningError(
                    f"a record's {name} must be 1 to {MAX_NAME_LENGTH} printable ASCII "
                    f"characters, not {shown(value)}"
                )
        knobs = self.config.values
        if not (
            1 <= len(knobs) <= MAX_KNOBS
            and all(len(knob) <= MAX_NAME_LENGTH for knob, _ in knobs)
            and all(-MAX_INTEGER <= value <= MAX_INTEGER for _, value in knobs)
        ):
            raise TuningError(
                f"a record's config must have 1 to {MAX_KNOBS} knobs with short names and values "
                f"of 64 bits, not {shown(dict(knobs))}"
            )
        if self.cycles is not None:
            _require_integer("cycles", self.cycles, 1)
        _require_integer("when", self.when, 0)
        self._check_failure()

    def _check_failure(self) -> None:
        """Raise TuningError where failure and limit are beyond their bounds."""
        text, limit = self.failure, self.limit_seconds
        if not (
            isinstance(text, str)
            and len(text) <= MAX_NAME_LENGTH
            and text.isascii()
            and (text.isprintable() and not (text and self.cycles is not None))
        ):
            raise TuningError(
                f"a record's failure must be at most {MAX_NAME_LENGTH} printable ASCII characters, "
                f"and empty where it has cycles, not {shown(text)}"
            )
        if type(limit) not in (int, float) or not 0 <= limit < math.inf:
            raise TuningError(
                f"a record's limit_seconds must be a number from 0, not {shown(limit)}"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "workload": self.workload.key,
            "description": self.workload.description,
            "fingerprint": self.fingerprint,
            "memory": self.memory,
            "target": self.target,
            "kit": self.kit,
            "config": self.config.to_json(),
            "cycles": self.cycles,
            "when": self.when,
            "failure": self.failure,
            "limit_seconds": self.limit_seconds,
        }

    @classmethod
    def from_json(cls, data: Any) -> "Record":
        """The record that `to_json` wrote.

        Raises
        ------
        TuningError
            `data` is no record, or its key is not the one of its description.
        """
        if not isinstance(data, dict) or set(data) != set(_FIELDS):
            raise TuningError(
                f"a record must be an object with {', '.join(_FIELDS)}, not {shown(data)}"
            )
        workload = Workload.from_json(data["description"])
        if data["workload"] != workload.key:
            raise TuningError(
                f"a record's workload must be the SHA-256 of its description, {workload.key}, not "
                f"{shown(data['workload'])}"
            )
        try:
            config = Config.from_json(data["config"])
        except ScheduleError as error:
            raise TuningError(str(error)) from error
        others = {name: data[name] for name in (*_SETTING, *_OUTCOME)}
        return cls(workload=workload, config=config, **others)


def _require_integer(name: str, value: object, least: int) -> None:
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise TuningError(
            f"a record's {name} must be an integer from {least} to {MAX_INTEGER}, not "
            f"{shown(value)}"
        )
