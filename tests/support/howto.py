"""How-to pages whose changes are made to a copy of the sources, in which their Python then runs.

A page changes files in blocks of ``diff``: ``+++ FILE``, then lines as they are (`` ``), gone
(``-``) and new (``+``), with ``@@`` between places that are apart. Lines that stay or go must be in
the file once, one below the other. A new file is a block of Python or TOML under a paragraph
"`FILE`, a new file:"; one without a folder is the user's own. The other blocks of Python run in
order, in one process; a block of text shows what the one above it prints. Lines that begin with
``.venv/bin/python -m pytest`` are the tests in which a page ends.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.pages import ROOT

__all__ = [
    "changed_copy",
    "changed_tree",
    "changes",
    "commands_of_tests",
    "listed_files",
    "run_blocks",
    "run_tests",
]

_DIFF = re.compile(r"^```diff\n\+\+\+ (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NEW = re.compile(r"^`([\w./-]+)`, a new file:\n\n```(?:python|toml)\n(.*?)^```$", re.DOTALL | re.M)
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_OWN = ("bench", "docs", "examples", "tests")
"""Folders that are no packages of `daedal`."""
_TESTS = re.compile(r"^    \.venv/bin/python (-m pytest .*)$", re.MULTILINE)
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
_MARK = "---- the next block ----"


def listed_files(page: str) -> list[str]:
    """The files of the page's table."""
    _, _, rows = page.partition("| file | what changes |\n")
    return re.findall(r"^\| `(\S+)` \|", rows.partition("\n\n")[0], re.MULTILINE)


def changes(page: str) -> dict[str, str]:
    """The text of each changed or new file."""
    found: dict[str, str] = {}
    for name, text in _DIFF.findall(page):
        found[name] = _changed(name, found.get(name) or (ROOT / name).read_text("utf-8"), text)
    for name, text in _NEW.findall(page):
        assert not (ROOT / name).exists() and name not in found, f"{name} is not new"
        found[name] = text
    return found


def _changed(name: str, source: str, diff: str) -> str:
    source = f"\n{source}"  # so that a line begins where this precedes it
    for place in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = [line for line in place.splitlines() if line]
        assert all(line[0] in " -+" for line in lines), f"a line of {name} is no difference"
        old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        assert source.count(f"\n{old}") == 1, f"not once in {name}:\n{old}"
        source = source.replace(f"\n{old}", f"\n{new}")
    return source[1:]


def changed_tree(files: Mapping[str, str], folder: Path) -> Path:
    """A tree of links to the sources in which only `files` are others; for PYTHONPATH."""
    paths = {_place(name): text for name, text in files.items() if "/" in name}
    _fill(folder, Path(), paths)
    return folder


def _place(name: str) -> Path:
    """Where a file of the repository is in the tree: packages are in ``daedal/``."""
    path = Path(name)
    inside = path.parts[0] == "daedal" or path.parts[0] in _OWN
    return path if inside else Path("daedal") / path


def _fill(folder: Path, at: Path, files: Mapping[Path, str]) -> None:
    (folder / at).mkdir(parents=True)
    inside = {path.relative_to(at).parts[0] for path in files if path.is_relative_to(at)}
    if at == Path():
        inside.add("daedal")  # a folder of its own, so that Python keeps compiled files in it
    for name, source in _sources(at):
        if name not in inside:
            (folder / at / name).symlink_to(source)
    for name in inside:
        if at / name in files:
            (folder / at / name).write_text(files[at / name], "utf-8")
        else:
            _fill(folder, at / name, files)


def _sources(at: Path) -> Iterator[tuple[str, Path]]:
    """Names and sources of a folder of the tree."""
    if at == Path():
        yield from ((name, ROOT / name) for name in _OWN)
        return
    packages = at.parts[0] == "daedal"
    for path in (ROOT / ("typings" if packages else "") / at).iterdir():
        if path.name != "__pycache__":
            yield path.name, path.resolve()


def run_blocks(page: str, tree: Path, folder: Path) -> None:
    """Run the page's blocks of Python in `folder`; fails where one does, or prints other text."""
    blocks = _BLOCK.findall(_NEW.sub("", page))
    code = [text for kind, text in blocks if kind == "python"]
    script = folder / "page.py"
    script.write_text(f"print({_MARK!r})\n".join(["", *code]), "utf-8")
    done = subprocess.run(
        # -P: the working folder may hold a package of the same name.
        [sys.executable, "-P", str(script)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = iter(done.stdout.split(f"{_MARK}\n")[1:])
    last = ""
    for kind, text in blocks:
        if kind == "python":
            last = next(printed)
        else:
            assert last == text, last


def commands_of_tests(page: str) -> list[list[str]]:
    """Arguments of Python of each command of the page that runs tests."""
    return [shlex.split(line) for line in _TESTS.findall(page)]


def changed_copy(files: Mapping[str, str], folder: Path) -> Path:
    """A copy of the repository with `files`, for tests that read other files of it.

    Its folder ``daedal`` has links to all packages, so that no installed one is imported.
    """
    shutil.copytree(ROOT, folder, symlinks=True, ignore=_NOT_COPIED)
    for link in (folder / "typings" / "daedal").iterdir():
        if not (folder / "daedal" / link.name).exists():
            (folder / "daedal" / link.name).symlink_to(Path("..", link.name))
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def run_tests(arguments: Sequence[str], copy: Path) -> str:
    """Run tests of a copy of the repository, and return what pytest prints; fails if one does."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout
