"""Copies of the repository in which faults are planted.

Built simulators and kernels are content-addressed, so the copies share one cache: whatever a fault
changes has another key there.

A copy's tests import `daedal` from the copy: a `sitecustomize` module on PYTHONPATH finds the
root folders there, before the editable install finds them elsewhere.
"""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

from bench.changes.mutation.faults import Fault, planted

__all__ = ["Tree"]

_FINDER = '''"""Finds daedal in the copy of the repository that this folder belongs to."""

import sys
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

FOLDERS = {folders!r}


class _Finder(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname not in FOLDERS:
            return None
        folder = FOLDERS[fullname]
        return spec_from_file_location(
            fullname, str(Path(folder) / "__init__.py"), submodule_search_locations=[folder]
        )


sys.meta_path.insert(0, _Finder())
'''


class Tree:
    """A copy of the repository `source` under `home`, brought up to date.

    `caches` keeps what tests build.
    """

    def __init__(self, source: Path, home: Path, caches: Path) -> None:
        self._source, self._home, self._caches = source, home, caches
        self.root = home / "tree"
        self._site = home / "site"
        self._healthy: tuple[str, bytes] | None = None
        self._copy()
        self._write_site()

    def environment(self) -> dict[str, str]:
        """Of processes that run in the copy."""
        return {
            **os.environ,
            "PYTHONPATH": str(self._site),
            "PYTHONHASHSEED": "0",
            "XDG_CACHE_HOME": str(self._caches),
        }

    def plant(self, fault: Fault) -> None:
        """Write the file with the fault; one fault at a time."""
        assert self._healthy is None, "one fault at a time"
        data = (self.root / fault.path).read_bytes()
        self._healthy = fault.path, data
        self._write(fault.path, planted(data.decode(), fault).encode())

    def heal(self) -> None:
        """Write the file as it was."""
        if self._healthy is not None:
            healthy, self._healthy = self._healthy, None
            self._write(*healthy)

    def _write(self, path: str, data: bytes) -> None:
        file = self.root / path
        file.write_bytes(data)
        # Bytecode is found by time in seconds and by size: two texts may have both in common.
        for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            stale.unlink()

    def _copy(self) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self._source, capture_output=True, check=True,
        )  # fmt: skip
        names = [name for name in listed.stdout.decode().split("\0") if name]
        wanted = {name for name in names if (self._source / name).exists()}
        # Tests leave files that git ignores; those stay, caches among them.
        known = self._home / "files"
        before = set(known.read_text().splitlines()) if known.is_file() else set[str]()
        for name in before - wanted:
            (self.root / name).unlink(missing_ok=True)
        for name in sorted(wanted):
            self._bring(name)
        known.write_text("\n".join(sorted(wanted)) + "\n")

    def _bring(self, name: str) -> None:
        source, target = self._source / name, self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(source.readlink())
        elif not target.is_file() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)
            for stale in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
                stale.unlink()

    def _write_site(self) -> None:
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        mapped = project["tool"]["setuptools"]["package-dir"]
        folders = {name: str(self.root / folder) for name, folder in mapped.items()}
        folders["daedal"] = str(self.root / "daedal")
        self._site.mkdir(exist_ok=True)
        (self._site / "sitecustomize.py").write_text(_FINDER.format(folders=folders))
        shutil.copy(Path(__file__).parent / "watch.py", self._site / "mutation_watch.py")
        kept = self.root / ".daedal" / "cache"  # tests/conftest.py keeps all caches there
        if not kept.is_symlink():
            kept.parent.mkdir(exist_ok=True)
            self._caches.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(kept, ignore_errors=True)
            kept.symlink_to(self._caches.resolve())
        # The models that tests look for beside the repository.
        shared = self._home / "shared"
        if not shared.is_symlink() and (self._source.parent / "shared").is_dir():
            shared.symlink_to((self._source.parent / "shared").resolve())
