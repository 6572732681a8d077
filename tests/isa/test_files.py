"""Files appear whole, with the rights that any new file gets."""

import os
from pathlib import Path

import pytest

from daedal.isa.errors import UserError
from daedal.isa.files import make_folder, write_atomically


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_rights_are_those_of_any_new_file(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "ours", "text")
        (tmp_path / "plain").write_text("text")
        assert os.umask(umask) == umask, "the process keeps its umask"
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode for name in ("ours", "plain")]
    assert modes[0] == modes[1]


def test_the_old_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    make_folder(path.parent)
    write_atomically(path, "old")
    write_atomically(path, b"\xff\x00")
    assert path.read_bytes() == b"\xff\x00"
    assert [item.name for item in path.parent.iterdir()] == ["file"]


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="an output file must be writable"):
        write_atomically(tmp_path / "folder", "text")
    with pytest.raises(UserError, match="must lie in a writable folder"):
        write_atomically(tmp_path / "none" / "file", "text")
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]
