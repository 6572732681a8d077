"""The mutation test on a project of two functions, and the parts that decide what is run."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.changes import mutants
from bench.changes.mutants import Results
from bench.changes.mutation.areas import AREAS, Area, area_of, choose, files_of
from bench.changes.mutation.equivalence import reviewed, same_code
from bench.changes.mutation.faults import Fault, faults_of
from bench.changes.mutation.imports import modules_of
from bench.changes.mutation.judge import EQUIVALENT, KILLED, SURVIVED, TIMEOUT, Judge, Verdict
from bench.changes.mutation.plan import Baselines, judging_files, stages
from bench.changes.mutation.report import killed_share, report
from bench.changes.mutation.tree import Tree

ROOT = Path(__file__).resolve().parents[4]
AREA = Area("isa", {"isa/code.py": 3}, ("isa",))
CODE, TESTS = "isa/code.py", "tests/isa/test_code.py"

FILES = {
    "pyproject.toml": '[tool.setuptools.package-dir]\n"daedal.isa" = "isa"\n',
    "daedal/__init__.py": "",
    "isa/__init__.py": "",
    CODE: "def smaller(a, b):\n    return a < b\n\n\ndef largest(a, b):\n    return max(a, b)\n",
    "tests/conftest.py": "import hypothesis\n\nhypothesis.settings.register_profile('daedal')\n",
    TESTS: """import pytest

from daedal.isa.code import largest, smaller


def test_smaller():
    assert smaller(1, 2)


@pytest.mark.slow
def test_smaller_thoroughly():
    assert not smaller(1, 1)


def test_largest():
    assert largest(1, 2) == largest(2, 1) == 2
""",
    "tests/isa/test_other.py": "def test_other():\n    raise ValueError\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project") / "main"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def fault_to(after: str) -> Fault:
    return next(fault for fault in faults_of(CODE, FILES[CODE]) if fault.after == after)


def test_a_fault_is_judged_by_the_tests_that_reach_it(project: Path) -> None:
    home = project.parent / "home"
    tree = Tree(project, home / "worker", home / "caches")
    baselines = Baselines(tree, home / "baselines")
    (stage,) = stages(fault_to("min"), AREA, [TESTS], baselines, 60.0)
    assert (stage.files, stage.order) == ((TESTS,), (f"{TESTS}::test_largest",))

    judge = Judge(tree, tree, (baselines,), 60.0)
    killed = judge.verdict(fault_to("min"), AREA)
    assert (killed.state, killed.by, list(killed.judges)) == (KILLED, stage.order[0], [TESTS])
    survived = judge.verdict(fault_to("<="), AREA)
    assert (survived.state, survived.tests) == (SURVIVED, 1)
    assert (tree.root / CODE).read_text() == FILES[CODE], "the fault is taken out again"

    files = [TESTS]
    assert killed.holds(fault_to("min"), files, project)
    assert survived.holds(fault_to("<="), files, project)
    assert not survived.holds(fault_to("<="), [*files, "tests/isa/test_new.py"], project)
    assert not dataclasses.replace(killed, source="other").holds(fault_to("min"), files, project)
    assert not dataclasses.replace(killed, judges={TESTS: "x"}).holds(
        fault_to("min"), files, project
    )
    slow_ones = Baselines(tree, home / "slow_baselines", slow=True)
    by_slow = Judge(tree, tree, (baselines, slow_ones), 60.0).verdict(fault_to("<="), AREA)
    assert (by_slow.state, by_slow.tests, by_slow.slow) == (KILLED, 2, True)
    assert by_slow.by == f"{TESTS}::test_smaller_thoroughly" and not killed.slow


@pytest.mark.parametrize("path", ["quantizer.py", "rewrites/rotations.py"])
def test_an_area_has_files_at_any_depth(path: str) -> None:
    assert area_of(f"compiler/quantization/{path}", ROOT).name == "compiler"


def test_only_files_that_import_the_module_judge(project: Path) -> None:
    assert judging_files(fault_to("min"), AREA, project) == [TESTS]
    assert modules_of(project, TESTS) == {CODE: 1}


def test_a_tree_follows_its_source(project: Path, tmp_path: Path) -> None:
    tree = Tree(project, tmp_path / "home", tmp_path / "caches")
    tree.plant(fault_to("min"))
    extra = project / "isa" / "extra.py"
    extra.write_text("x = 1\n")
    again = Tree(project, tmp_path / "home", tmp_path / "caches")
    assert (again.root / CODE).read_text() == FILES[CODE], "a fault left behind is taken out"
    assert (again.root / "isa/extra.py").read_text() == "x = 1\n"
    extra.unlink()
    Tree(project, tmp_path / "home", tmp_path / "caches")
    assert not (again.root / "isa/extra.py").exists()


def test_equal_bytecode_is_equivalent() -> None:
    assert same_code("x = 1 + 1", "x = (\n    2\n)")
    assert not same_code("x = 2", "x = 2.0")
    assert not same_code("def f():\n    return 1", "def f():\n    return 2")


def verdict(state: str, key: str = "k") -> Verdict:
    return Verdict(key, f"a.py:1:0 {state}", "isa", "compare", state, "by", 1, 2.0, "s", {})


def test_the_share_leaves_equivalents_out() -> None:
    verdicts = [verdict(KILLED), verdict(TIMEOUT), verdict(SURVIVED), verdict(EQUIVALENT)]
    assert killed_share(verdicts) == pytest.approx(2 / 3)
    assert "| isa | 4 | 2 | 1 | 0 | 1 | 1 | 66.7% | 66.7% |" in report(verdicts)
    verdicts[0] = dataclasses.replace(verdicts[0], slow=True)
    assert "| isa | 4 | 2 | 1 | 1 | 1 | 1 | 66.7% | 33.3% |" in report(verdicts)
    assert killed_share([]) == 1.0


def test_there_are_faults_enough_and_the_choice_is_stable() -> None:
    counts = [sum(files_of(area, ROOT).values()) for area in AREAS]
    assert sum(counts) >= 200 and min(counts) >= 12
    area = next(area for area in AREAS if area.name == "functional")
    chosen = choose(area, ROOT, 1)
    assert len({fault.key for fault in chosen}) == len(chosen) >= 12
    assert chosen == choose(area, ROOT, 1) != choose(area, ROOT, 2)


def test_every_reviewed_equivalent_is_still_there() -> None:
    """A key that no fault has any more stands for code that has changed: look again."""
    table = reviewed()
    for path in {entry["file"] for entry in table.values()}:
        keys = {fault.key for fault in faults_of(path, (ROOT / path).read_text(encoding="utf-8"))}
        assert {key for key, entry in table.items() if entry["file"] == path} <= keys, path


def test_a_new_clone_has_verdicts(tmp_path: Path) -> None:
    assert len(Results(tmp_path / "own.json", mutants.KEPT).verdicts) > 400


def test_verdicts_that_are_kept_are_known_in_a_new_clone(tmp_path: Path) -> None:
    """A later verdict on the same fault counts, and the kept file has a line for each."""
    first = Verdict("a", "title", "isa", "number", "survived", "", 3, 1.0, "s", {})
    later = dataclasses.replace(first, state="killed", by="tests/test_a.py::test")
    results = Results(tmp_path / "own.json")
    results.add(first)
    results.add(dataclasses.replace(first, key="b"))
    results.keep(tmp_path / "kept.json", ["a", "c"])
    assert len((tmp_path / "kept.json").read_text().splitlines()) == 3
    clone = Results(tmp_path / "clone" / "own.json", tmp_path / "kept.json")
    assert clone.verdicts == {"a": first}
    clone.add(later)
    again = Results(tmp_path / "clone" / "own.json", tmp_path / "kept.json")
    assert again.verdicts == {"a": later}


def test_a_run_of_one_line_keeps_the_verdicts_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = [(fault, AREA) for fault in faults_of(CODE, FILES[CODE])]
    monkeypatch.setattr(mutants, "HOME", tmp_path)
    monkeypatch.setattr(mutants, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(mutants, "_chosen", lambda _seed, _only, at: sample[:1] if at else sample)
    results = Results(tmp_path / "results.json")
    for fault, _ in sample:
        results.add(verdict(KILLED, fault.key))
    results.add(verdict(KILLED, "of a fault that is gone"))
    monkeypatch.setattr(sys, "argv", ["mutants.py", "--at", CODE, "--report", "--keep"])
    assert mutants.main() == 0
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert {item["key"] for item in kept} == {fault.key for fault, _ in sample}
