"""Workers that count: what the search is told where one of them is killed."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest

from daedal.codesign.cycles import counting
from daedal.isa.errors import ToolError
from daedal.isa.variant import load_variant


class KilledPool:
    """A pool whose workers were killed."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        pass

    def __enter__(self) -> "KilledPool":
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def submit(self, _call: Callable[..., Any], *_given: Any) -> "Future[Any]":
        assert os.environ["PYTHONSAFEPATH"] == "1", "a worker imports nothing from this folder"
        task: Future[Any] = Future()
        task.set_exception(BrokenProcessPool("killed"))
        return task


def test_a_killed_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "ProcessPoolExecutor", KilledPool)
    with counting.counters({}, "ddr", 1) as counter:
        with pytest.raises(ToolError, match=r"was killed.*fewer --workers; the same command"):
            list(counter([load_variant("tiny")]))
