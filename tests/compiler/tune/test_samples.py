"""`Samples`: as many tasks as there is room for, the latest."""

import numpy as np
import pytest

from daedal.compiler.tune import samples as module
from daedal.compiler.tune.samples import Samples


def test_the_task_that_came_first_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TASKS", 3)
    found = Samples()
    for name in "abcad":  # `a` came again
        found.add(name, {"area": np.ones(2)}, np.array([1.0, 2.0]))
    assert found.tasks == ["c", "a", "d"] and len(found) == 6
