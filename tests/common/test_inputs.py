"""Inputs are regular files, and no more of one is read than its bound."""

import os
from pathlib import Path

import pytest

from daedal.common.errors import ModelError, UserError
from daedal.common.inputs import read_input
from tests.support.odd_files import ODD_FILES, at_most, make_odd_file


def test_a_regular_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_input(path, "a model", 5) == b"12345"
    assert read_input(str(path), "a model", 1 << 60) == b"12345"
    with pytest.raises(UserError, match=r"a model must have at most 4 bytes; '.*x' has more"):
        read_input(path, "a model", 4)


def test_a_link_to_a_regular_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1")
    (tmp_path / "link").symlink_to("x")
    assert read_input(tmp_path / "link", "a model", 10) == b"1"


@pytest.mark.parametrize("kind", ODD_FILES)
def test_everything_else_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    name = make_odd_file(kind, tmp_path / "x")
    reason = "No such file or directory" if kind == "a link to nothing" else f"it is {name}"
    with (
        at_most(10),
        pytest.raises(ModelError, match=rf"must be a readable file; '.*x' is not: {reason}; check"),
    ):
        read_input(tmp_path / "x", "a model", 10, ModelError)


def test_a_file_that_says_nothing_of_its_size_is_bounded_as_well() -> None:
    path = "/proc/self/environ" if os.environ else "/proc/self/status"
    if not os.path.exists(path):
        pytest.skip("needs /proc, whose files have size 0")
    assert os.stat(path).st_size == 0
    content = read_input(path, "a model", 1 << 24)
    assert len(content) > 0
    with pytest.raises(UserError, match="must have at most 1 bytes"):
        read_input(path, "a model", 1)


def test_a_file_that_became_a_pipe_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at it and its opening."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    look = os.stat
    swapped = {tmp_path / "pipe": tmp_path / "file"}
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda path, **more: look(swapped.get(path, path), **more))
        with at_most(10), pytest.raises(UserError, match="it is a pipe"):
            read_input(tmp_path / "pipe", "a model", 10)


def test_a_path_that_no_file_can_have() -> None:
    with pytest.raises(UserError, match=r"must be a readable file; .* is not: embedded null byte"):
        read_input("a\0b", "a model", 10)
