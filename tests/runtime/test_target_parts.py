"""Parts of other targets: their results stay where they are until the host needs them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from daedal.artifact.parts import TargetPart
from daedal.common.errors import ModelError
from daedal.runtime import target_parts
from daedal.runtime.target_parts import Kept, TargetRun, add_loader, bring

NAME = "elsewhere"
X = np.array([1.0, -2.0], np.float32)


class Far(Kept):
    """An array that counts how often it is brought to the host."""

    def __init__(self, array: np.ndarray, target: str = NAME) -> None:
        self.target = target
        self.array = array
        self.times = 0

    def to_host(self) -> np.ndarray:
        self.times += 1
        return self.array


class Negated:
    """A part that gives the negative of each input as "minus" and its name, in `form`."""

    form: Any = staticmethod(Far)

    def __init__(self, part: TargetPart) -> None:
        self.seen: Mapping[str, Any] = {}

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        self.seen = values
        return {
            f"minus {name}": self.form(-(item.array if isinstance(item, Far) else item))
            for name, item in values.items()
        }


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_parts, "_LOADERS", {})
    add_loader(NAME, Negated)


def part(name: str) -> TargetRun:
    return TargetRun(TargetPart(NAME, (name,), (f"minus {name}",), (), b""))


def test_a_result_stays_and_goes_to_the_next_part_as_it_is(elsewhere: None) -> None:
    values, kept = {"x": X}, dict[str, Kept]()
    part("x").run(values, kept)
    first = kept["minus x"]
    assert isinstance(first, Far) and values == {"x": X}
    part("minus x").run(values, kept)
    assert first.times == 0
    bring(kept, values, ["minus minus x"])
    np.testing.assert_array_equal(values["minus minus x"], X)


def test_an_array_is_on_the_host(elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Negated, "form", staticmethod(np.asarray))
    values, kept = {"x": X}, dict[str, Kept]()
    part("x").run(values, kept)
    np.testing.assert_array_equal(values["minus x"], -X)
    assert not kept


def test_what_another_target_keeps_is_brought_once(elsewhere: None) -> None:
    values, far = dict[str, Any](), Far(X, "a third")
    kept: dict[str, Kept] = {"x": far}
    for _ in range(2):
        part("x").run(values, kept)
        np.testing.assert_array_equal(values["x"], X)
    assert far.times == 1


def test_a_tensor_that_nothing_has_is_missing(elsewhere: None) -> None:
    with pytest.raises(ModelError, match=r"^a run must give the tensor 'x'; it got 'z'$"):
        part("x").run({"z": X}, {})
