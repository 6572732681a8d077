"""States in the manifest of an artifact."""

import pytest

from daedal.artifact.states import State, state_from_json

ITEM = {"name": "k", "new": "k_new", "tensor": "t", "axis": 1, "rows": 1, "begin": 1}


def test_the_smallest_state() -> None:
    assert state_from_json(ITEM) == State("k", "k_new", "t", axis=1, rows=1, begin=1)


@pytest.mark.parametrize("changed", [{"axis": 0}, {"axis": 3}, {"rows": 0}, {"begin": 0}])
def test_smaller_and_other_ones_are_refused(changed: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        state_from_json({**ITEM, **changed})
