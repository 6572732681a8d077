"""``daedal export``: what it writes, twice the same, and what it refuses."""

import re
from pathlib import Path

from daedal.isa.variant import load_variant
from tests.support.command_line import Run, refuses


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_core_for_vivado(run: Run, tmp_path: Path) -> None:
    status, out, err = run("export", "tiny", "-o", tmp_path / "core")
    assert (status, out) == (0, "")
    found = contents(tmp_path / "core")
    names = {"README.md", "build.tcl", "component.xml", "regs.h", "src/daedal_top.v"}
    assert found.keys() == names | {".daedal-export"}
    assert all(name in err for name in names)
    fingerprint = load_variant("tiny").fingerprint.encode()
    for name in names - {"regs.h"}:
        assert fingerprint in found[name]
    texts = b"".join(found.values())
    assert not re.search(rb"@\w+@|/home/|/root/|/tmp/|/usr/", texts)
    for word in re.findall(r"`([\w/]+\.\w+)`", found["README.md"].decode()):
        assert word in names or word.startswith("accelerator.")

    status, _, _ = run("export", "tiny", "--vivado", tmp_path / "again")
    assert contents(tmp_path / "again") == found
    assert run("export", "tiny", "--vivado", tmp_path / "again")[0] == 0
    assert contents(tmp_path / "again") == found


def test_folders_of_others_are_refused_at_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    answer = run("export", "tiny", "--vivado", tmp_path)
    refuses(answer, "must be new, empty, or one of an earlier export", str(tmp_path))
    refuses(run("export", "tiny", "--vivado", tmp_path / "a" / "b"), "must lie in one that exists")
    refuses(run("export", "toaster", "--vivado", tmp_path / "core"), "toaster")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
