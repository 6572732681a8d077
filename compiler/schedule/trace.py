"""The calls of a schedule as data, which can be replayed and written as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from daedal.common.errors import ScheduleError

__all__ = ["Instruction", "Trace"]

FORMAT = 1
"""Version of the JSON form."""


@dataclass(frozen=True)
class Instruction:
    """One call: its primitive, its arguments, and the names given to the handles it returned.

    A handle in the arguments is its name with ``%`` before: ``{"loop": "%l3", "factors": [None,
    4]}``.
    """

    primitive: str
    arguments: Mapping[str, Any]
    results: tuple[str, ...]


@dataclass
class Trace:
    """The calls of a schedule in order."""

    instructions: list[Instruction] = field(default_factory=list)

    @property
    def decisions(self) -> dict[int, Any]:
        """What the sampling primitives chose, by the position of their instruction."""
        return {
            position: item.arguments["decision"]
            for position, item in enumerate(self.instructions)
            if "decision" in item.arguments
        }

    def with_decision(self, position: int, decision: Any) -> "Trace":
        """The trace with another choice at one of `decisions`; None draws anew when it replays.

        Raises
        ------
        ScheduleError
            Where nothing is chosen at `position`; an impossible choice is refused by `replay`.
        """
        if position not in self.decisions:
            known = ", ".join(map(str, self.decisions)) or "none"
            raise ScheduleError(
                f"a decision must stand at the position of a sampling primitive ({known}), not at "
                f"{position}"
            )
        items = list(self.instructions)
        arguments = {**items[position].arguments, "decision": decision}
        items[position] = replace(items[position], arguments=arguments)
        return Trace(items)

    def to_json(self) -> str:
        """One line of JSON per call, in a document of one object."""
        return json.dumps(
            {
                "format": FORMAT,
                "instructions": [
                    {
                        "primitive": item.primitive,
                        "arguments": dict(item.arguments),
                        "results": list(item.results),
                    }
                    for item in self.instructions
                ],
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """Read what `to_json` wrote.

        Raises
        ------
        ScheduleError
            Where `text` is anything else.
        """
        try:
            document = json.loads(text)
        except ValueError:
            raise ScheduleError("a trace must be JSON as Trace.to_json writes it") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ScheduleError(f"a trace must be an object of format {FORMAT}")
        items = document.get("instructions")
        if not isinstance(items, list):
            raise ScheduleError("a trace must hold a list of instructions")
        return cls([_instruction(item) for item in items])

    def __str__(self) -> str:
        """One call per line: ``%l5, %l6 = split(loop=%l1, factors=[None, 4])``."""
        lines = []
        for item in self.instructions:
            shown = ", ".join(f"{key}={_shown(value)}" for key, value in item.arguments.items())
            results = ", ".join(f"%{name}" for name in item.results)
            lines.append(
                f"{results} = {item.primitive}({shown})"
                if results
                else f"{item.primitive}({shown})"
            )
        return "".join(line + "\n" for line in lines)


def _instruction(item: object) -> Instruction:
    if not isinstance(item, dict):
        raise ScheduleError("an instruction of a trace must be an object")
    primitive, arguments, results = (item.get(k) for k in ("primitive", "arguments", "results"))
    if not isinstance(primitive, str) or not isinstance(arguments, dict):
        raise ScheduleError("an instruction of a trace must have a primitive and arguments")
    if not isinstance(results, list) or not all(isinstance(name, str) for name in results):
        raise ScheduleError("the results of an instruction of a trace must be a list of names")
    return Instruction(primitive, arguments, tuple(results))


def _shown(value: object) -> str:
    if isinstance(value, str) and value.startswith("%"):
        return value
    if isinstance(value, list):
        return "[" + ", ".join(_shown(part) for part in value) + "]"
    return repr(value)
