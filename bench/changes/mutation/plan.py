"""Which tests judge a fault, and in which order.

Test files are those of the folder that mirrors the faulty file's, those of the area, and any that
ask for the faulty function by name. Those named for the file come first, then those that import it
over few others; those that do not import it are left out. Of a file run the tests that reach the
faulty function, as a traced run of the whole file found, cheapest first.
"""

import hashlib
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.changes.mutation.areas import Area
from bench.changes.mutation.faults import Fault
from bench.changes.mutation.imports import modules_of
from bench.changes.mutation.pytest_run import run_tests
from bench.changes.mutation.tree import Tree

__all__ = ["Baselines", "Stage", "digest", "judging_files", "stages"]

MEASURE_S = 60
"""CPU seconds after which no further test of a file is measured; such tests judge nothing."""


@dataclass(frozen=True)
class Stage:
    """Tests of one or several files for one run of pytest."""

    files: tuple[str, ...]
    order: tuple[str, ...]
    seconds: float


def digest(path: Path) -> str:
    """Of a file's bytes; empty where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def judging_files(fault: Fault, area: Area, root: Path) -> list[str]:
    """The test files that may judge `fault`, in order."""
    tests = root / "tests"
    folders = [tests / place for place in area.tests]
    mirror = tests / Path(fault.path).parent
    while not mirror.is_dir():
        mirror = mirror.parent
    files = list[Path]()
    for place in (mirror, *folders):
        files += [place] if place.is_file() else sorted(place.glob("test_*.py"))
    module = ".".join(("daedal", *Path(fault.path).with_suffix("").parts))
    stem, name = Path(fault.path).stem, fault.scope.split(".")[0]
    imports = re.compile(rf"\b(from|import) {re.escape(module)}\b")
    asks_for = re.compile(rf"\b{re.escape(name)}\b")

    def rank(file: Path) -> int:
        hops = modules_of(root, file.relative_to(root).as_posix()).get(fault.path, 0)
        return 0 if stem in file.stem else hops

    # Wherever they lie, those that ask the module for the faulty function or class by name.
    for file in sorted(tests.rglob("test_*.py")) if name else ():
        text = file.read_text(encoding="utf-8")
        if imports.search(text) and asks_for.search(text):
            files.append(file)
    names = dict.fromkeys(
        file.relative_to(root).as_posix()
        for file in sorted(dict.fromkeys(files), key=lambda file: rank(file))
    )
    return [name for name in names if fault.path in modules_of(root, name)]


class Baselines:
    """What every test file's tests reach and cost without a fault; measured once, kept.

    `slow`: those of the tests marked slow, instead of the others.
    """

    def __init__(self, tree: Tree, folder: Path, *, slow: bool = False) -> None:
        self._tree, self._folder, self.slow = tree, folder, slow
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[str, dict[str, Any]] = {}

    def of(self, file: str) -> dict[str, Any]:
        """The baseline of a test file."""
        with self._guard:
            lock = self._locks[file]
        with lock:
            if file not in self._known:
                self._known[file] = self._load(file)
            return self._known[file]

    def _load(self, file: str) -> dict[str, Any]:
        name = file.removeprefix("tests/").replace("/", "-").removesuffix(".py")
        path = self._folder / f"{name}-{digest(self._tree.root / file)}.json"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self._measure(file)))
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def _measure(self, file: str) -> dict[str, Any]:
        limit = 3 * MEASURE_S
        run = run_tests(
            self._tree, [file], slow=self.slow, trace=True, limit_s=limit, stop_s=MEASURE_S
        )
        out = {*run.failed, *run.skipped}
        numbers: dict[str, int] = {}
        tests = {
            name: {
                "seconds": round(seconds, 3),
                "reached": [numbers.setdefault(f, len(numbers)) for f in run.reached[name]],
            }
            for name, seconds in run.seconds.items()
            if name not in out
        }
        return {
            "functions": list(numbers),
            "import_seconds": run.import_seconds,
            "tests": tests,
            "failed": run.failed,
        }


def stages(
    fault: Fault, area: Area, files: list[str], baselines: Baselines, budget_s: float
) -> Iterator[Stage]:
    """Runs of tests for `fault`: short ones first, until `budget_s` CPU seconds are spent."""
    pending, pending_s, spent, least = list[tuple[str, str]](), 0.0, 0.0, 4.0
    for file in files:
        baseline = baselines.of(file)
        chosen = _reaching(fault, area, baseline)
        for name, seconds in chosen:
            if spent + seconds > budget_s:
                break
            pending.append((file, name))
            pending_s += seconds
            spent += seconds
        if pending and pending_s >= least:
            yield _stage(pending, pending_s, baselines)
            pending, pending_s, least = [], 0.0, 3 * least
    if pending:
        yield _stage(pending, pending_s, baselines)


def _stage(chosen: list[tuple[str, str]], seconds: float, baselines: Baselines) -> Stage:
    files = tuple(dict.fromkeys(file for file, _ in chosen))
    seconds += sum(baselines.of(file)["import_seconds"] for file in files)
    return Stage(files, tuple(name for _, name in chosen), seconds)


def _reaching(fault: Fault, area: Area, baseline: dict[str, Any]) -> list[tuple[str, float]]:
    """Tests that reach the faulty function, cheapest first.

    What runs when the module is imported is reached by every test that reaches anything in the
    module, or by any test where it has constants alone. So may it be where functions are compiled
    and never run as Python.
    """
    names: list[str] = baseline["functions"]
    here = f"{fault.path}::"
    function = {number for number, name in enumerate(names) if name == here + fault.scope}
    module = {number for number, name in enumerate(names) if name.startswith(here)}
    numbers = function if fault.runs else module
    anything = area.compiled or not (fault.runs or module)
    found = [
        (name, test["seconds"])
        for name, test in baseline["tests"].items()
        if anything or numbers.intersection(test["reached"])
    ]
    return sorted(found, key=lambda item: item[1])
