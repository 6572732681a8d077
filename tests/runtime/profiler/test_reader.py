"""Profiles as files: read back as they were, and one sentence for what is none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ArtifactError
from daedal.runtime.profiler import reader
from daedal.runtime.profiler.reader import load_profile, read_profile
from tests.support.profiles import random_launch


@given(seed=st.integers(0, 2**32 - 1), with_timeline=st.booleans())
def test_read_back(seed: int, with_timeline: bool) -> None:
    profile = random_launch(np.random.default_rng(seed)).profile(with_timeline=with_timeline)
    assert read_profile(json.dumps(profile.to_json())) == profile


def document() -> dict[str, Any]:
    """A profile that can be read."""
    data: dict[str, Any] = random_launch(np.random.default_rng(4)).profile().to_json()
    return data


def drop(data: dict[str, Any], *path: str | int) -> None:
    for step in path[:-1]:
        data = data[step]  # type: ignore[index]
    del data[path[-1]]  # type: ignore[arg-type]


def put(value: object, *path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda data: drop(data, "units", "alu"),
        lambda data: drop(data, "layers", 0, "units", "load", "stall"),
        lambda data: drop(data, "conditions"),
        put(-1, "cycles"),
        put(1.5, "cycles"),
        put(True, "cycles"),
        put("9" * 5000, "name"),
        put(7, "layers", 0, "name"),
        put(0, "conditions", "bus_bytes"),
        put({}, "layers"),
        put([1], "timeline", "rows", 0),
        put("unit", "timeline"),
        put(0, "layers", 0, "mode_macs_per_cycle"),
        put("FPU", "timeline", "rows", 0, 0),
    ],
)
def test_damaged(change: Callable[[dict[str, Any]], None]) -> None:
    data = document()
    change(data)
    with pytest.raises(ArtifactError, match="must be a file that `daedal profile` wrote"):
        read_profile(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "3", '{"format": ', "[" * 100_000, "\udcff", "{}"])
def test_something_else(text: str) -> None:
    with pytest.raises(ArtifactError, match="must be a file that `daedal profile` wrote"):
        read_profile(text)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ArtifactError, match="must be a file that `daedal profile` wrote"):
        read_profile(b"\xff\xfe\x00\xd8")


def test_another_format() -> None:
    data = document() | {"format": "daedal profile 9"}
    with pytest.raises(ArtifactError, match=r"must be of format 'daedal profile 3', not '.* 9'"):
        read_profile(json.dumps(data))


def test_classes_that_do_not_sum_to_the_cycles() -> None:
    data = document()
    data["units"]["gemm"]["idle"] += 1
    with pytest.raises(ArtifactError, match="classes of a unit must sum to the launch's"):
        read_profile(json.dumps(data))


def test_layers_beyond_the_launch() -> None:
    data = document()
    data["layers"][0]["cycles"] += data["cycles"]
    with pytest.raises(ArtifactError, match="layers must take at most the launch's"):
        read_profile(json.dumps(data))


@pytest.mark.parametrize(("column", "value"), [("begin", 5), ("tag", 77)])
def test_intervals_that_do_not_fit(column: str, value: int) -> None:
    data = document()
    data["timeline"]["rows"][0][data["timeline"]["columns"].index(column)] = value
    with pytest.raises(ArtifactError, match="intervals of a unit must follow each other"):
        read_profile(json.dumps(data))


def test_files(tmp_path: Path) -> None:
    target = tmp_path / "made.json"
    target.write_text(json.dumps(document()))
    assert load_profile(target).name == "made"
    with pytest.raises(ArtifactError, match="a profile must be a readable file"):
        load_profile(tmp_path / "none.json")


def test_a_file_may_be_as_large_as_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, text = tmp_path / "profile.json", json.dumps(document())
    path.write_text(text)
    monkeypatch.setattr(reader, "MAX_PROFILE_BYTES", len(text))
    assert load_profile(path).to_json() == document()
    monkeypatch.setattr(reader, "MAX_PROFILE_BYTES", len(text) - 1)
    with pytest.raises(ArtifactError, match=f"must have at most {len(text) - 1} bytes"):
        load_profile(path)
