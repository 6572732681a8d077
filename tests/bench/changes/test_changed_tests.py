"""Which test files a change concerns."""

import subprocess
from pathlib import Path

import pytest

from bench.changes.changed_tests import affected_tests, changed_files

FILES = {
    "compiler/tiles.py": "from daedal.isa.shapes import Shape\n",
    "isa/shapes.py": "Shape = tuple\n",
    "isa/page.py": "PAGE = 'shapes.md'\n",
    "docs/shapes.md": "# Shapes\n",
    "variants/small.toml": "lanes = 4\n",
    "tests/conftest.py": "",
    "tests/compiler/conftest.py": "",
    "tests/compiler/test_tiles.py": "def test():\n    import daedal.compiler.tiles\n",
    "tests/isa/test_page.py": "from daedal.isa.page import PAGE\n",
    "tests/isa/test_shapes.py": "from daedal.isa import shapes\nNAME = 'small'\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        ("isa/shapes.py", ["tests/compiler/test_tiles.py", "tests/isa/test_shapes.py"]),
        ("compiler/tiles.py", ["tests/compiler/test_tiles.py"]),
        ("tests/isa/test_page.py", ["tests/isa/test_page.py"]),
        ("tests/compiler/conftest.py", ["tests/compiler/test_tiles.py"]),
        ("docs/shapes.md", ["tests/isa/test_page.py"]),
        ("variants/small.toml", ["tests/isa/test_shapes.py"]),
        ("README.md", []),
    ],
)
def test_who_reads_it(root: Path, changed: str, concerned: list[str]) -> None:
    assert affected_tests(root, [changed]) == concerned


def test_files_that_git_does_not_know_count(root: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=root, check=True
        )

    git("init", "-q")
    git("add", "isa", "docs")
    git("commit", "-qm", "first")
    git("add", "compiler")
    (root / "isa/shapes.py").write_text("Shape = list\n")
    (root / "docs/shapes.md").unlink()
    expected = {"isa/shapes.py", "docs/shapes.md", "compiler/tiles.py", "variants/small.toml"}
    assert expected <= set(changed_files(root, "HEAD"))
    assert "isa/page.py" not in changed_files(root, "HEAD")
