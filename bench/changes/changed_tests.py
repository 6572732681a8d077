"""Lists the test files that a change can break, one to a line: `make test-changed` runs them.

A test file is listed if it changed, if it imports a changed Python file (at any depth, wherever the
import stands), if a changed ``conftest.py`` applies to it, or if it, or what it imports, names a
changed file of another kind: a document, a template, a golden text, a variant.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from bench.changes.mutation.imports import modules_of

__all__ = ["affected_tests", "changed_files"]

ROOT = Path(__file__).resolve().parents[2]


def changed_files(root: Path, base: str) -> list[str]:
    """Files that differ from commit `base`, new ones that git does not ignore among them."""
    lines = [
        *_git(root, "diff", "--name-only", base, "--"),
        *_git(root, "ls-files", "--others", "--exclude-standard"),
    ]
    return sorted(set(lines))


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def affected_tests(root: Path, changed: Iterable[str]) -> list[str]:
    """The test files that a change of these files can break."""
    modules = {path for path in changed if path.endswith(".py")}
    folders = [Path(path).parent for path in modules if Path(path).name == "conftest.py"]
    names = [_mention(Path(path)) for path in changed if not path.endswith(".py")]
    mentions = re.compile("|".join(names)) if names else None
    found = []
    for file in sorted((root / "tests").rglob("test_*.py")):
        path = file.relative_to(root)
        needed = {path.as_posix(), *modules_of(root, path.as_posix())}
        if (
            modules & needed
            or any(path.is_relative_to(folder) for folder in folders)
            or (mentions and any(mentions.search(_text(root / name)) for name in needed))
        ):
            found.append(path.as_posix())
    return found


def _mention(path: Path) -> str:
    """A pattern for the name of a file; variants are named without their suffix."""
    if path.parent.name == "variants":
        return rf"""["']{re.escape(path.stem)}["']"""
    return re.escape(path.name)


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", default="HEAD", help="the commit to compare with")
    print(*affected_tests(ROOT, changed_files(ROOT, parser.parse_args().base)), sep="\n")


if __name__ == "__main__":
    main()
