"""States of an artifact: tensors that stay in the device's memory between launches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daedal.common.errors import ArtifactError
from daedal.common.fields import text, whole
from daedal.isa.program import Program

__all__ = ["State", "check_states", "state_from_json"]


@dataclass(frozen=True)
class State:
    """An input of the model that a program keeps in its own memory.

    A launch stores the new row at `begin` of `axis`. Before the next launch, the driver copies it
    to the row that the caller names, from 0 to ``rows - 1``. A row is all elements of the tensor
    with one index of `axis`.

    Attributes
    ----------
    name, new : the model's input, and its output with the new row.
    tensor : the program's input.
    axis : of the tensor (N, C, H, W): 1 if rows are channels, 2 if they are pixels.
    rows, begin : rows that can be written, and the place of the new one behind them.
    """

    name: str
    new: str
    tensor: str
    axis: int
    rows: int
    begin: int


def state_from_json(item: Mapping[str, Any]) -> State:
    """A state from the manifest. Raises what `daedal.isa.program.READ_FAILURES` lists."""
    return State(
        name=text(item["name"]),
        new=text(item["new"]),
        tensor=text(item["tensor"]),
        axis=whole(item["axis"], 1, 2),
        rows=whole(item["rows"], 1),
        begin=whole(item["begin"], 1),
    )


def check_states(states: tuple[State, ...], programs: tuple[Program, ...]) -> None:
    """Raise ArtifactError unless every state is an input of one program, with all its rows."""
    specs = [spec for program in programs for spec in program.inputs]
    for state in states:
        found = [spec for spec in specs if spec.name == state.tensor]
        if (
            len(found) != 1
            or found[0].stream is not None
            or found[0].by_pixel
            or not state.rows <= state.begin < found[0].shape[state.axis]
        ):
            raise ArtifactError(
                f"a state must lie with its rows in an input of one program, and {state.name!r} "
                "does not; compile the model again"
            )
