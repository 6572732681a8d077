"""What estimates of an earlier search depend on."""

from pathlib import Path

import pytest

from daedal.codesign import explore
from daedal.codesign.cycles import analytic, estimated_work
from daedal.codesign.hardware import area


def test_estimates_depend_on_the_code_and_the_tables_that_make_them() -> None:
    sources = explore._estimator_sources()
    for module in (analytic, estimated_work, area):
        assert Path(module.__file__) in sources
    assert any(path.suffix == ".json" for path in sources)


def test_another_cycle_model_makes_other_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    before = explore._estimator_version()
    explore._estimator_version.cache_clear()
    with monkeypatch.context() as context:
        context.setattr(explore, "cycles_version", lambda: "another")
        assert explore._estimator_version() != before
    explore._estimator_version.cache_clear()
