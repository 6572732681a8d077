"""Values that tests keep between runs."""

import importlib.metadata
from pathlib import Path

import pytest

from tests.support.kept_value import kept

made: list[int] = []


def numbers() -> list[int]:
    made.append(1)
    return [len(made), 7]


def test_a_value_is_made_once_for_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.clear()
    for _ in range(2):
        assert kept(numbers, "numpy", "onnx", folder=tmp_path / "kept") == [1, 7]
    monkeypatch.setattr(importlib.metadata.Distribution, "version", "0.0")
    assert kept(numbers, "numpy", "onnx", folder=tmp_path / "kept") == [2, 7]
    assert len(list((tmp_path / "kept").iterdir())) == 2
