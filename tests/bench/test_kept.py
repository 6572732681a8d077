"""Answers that benches keep: made once, and again when something that they depend on changed."""

from pathlib import Path

import pytest

from bench import kept as module
from bench.kept import kept, sources_digest


def test_an_answer_is_made_once(tmp_path: Path) -> None:
    made = list[int]()

    def make() -> dict[str, int]:
        made.append(len(made))
        return {"number": len(made)}

    folder = tmp_path / "new" / "folder"
    assert kept(folder, "a", ["x", "1"], make) == {"number": 1}
    assert kept(folder, "a", ["x", "1"], make) == {"number": 1}
    assert kept(folder, "a", ["x", "2"], make) == {"number": 2}
    assert kept(folder, "a", ["x1"], make) == {"number": 3}
    assert len(list(folder.iterdir())) == 3


def test_the_digest_follows_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    code = tmp_path / "folder" / "inner" / "code.py"
    code.write_text("1")
    (tmp_path / "one.py").write_text("1")

    def digest() -> str:
        sources_digest.cache_clear()
        return sources_digest(("folder", "one.py"), ("numpy",))

    first = digest()
    (tmp_path / "folder" / "notes.txt").write_text("no source")
    assert digest() == first
    code.write_text("2")
    second = digest()
    (tmp_path / "one.py").write_text("2")
    third = digest()
    code.rename(code.with_name("other.py"))
    assert len({first, second, third, digest()}) == 4
    sources_digest.cache_clear()
