"""The verdict on one fault: killed by a test, by a timeout, equivalent, or survived."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.changes.mutation.areas import Area
from bench.changes.mutation.equivalence import reviewed, same_code, same_verilog
from bench.changes.mutation.faults import Fault, planted
from bench.changes.mutation.plan import Baselines, Stage, digest, judging_files, stages
from bench.changes.mutation.pytest_run import Run, run_tests
from bench.changes.mutation.tree import Tree

__all__ = ["EQUIVALENT", "KILLED", "SURVIVED", "TIMEOUT", "Judge", "Verdict"]

KILLED, TIMEOUT, EQUIVALENT, SURVIVED = "killed", "timeout", "equivalent", "survived"

LIMIT_FACTOR, LIMIT_S, BUILD_S = 4, 20, 300
"""CPU seconds that a run may take: so many times those of the unmutated one, and so many more, and
more again where simulators of faulty hardware are built."""


@dataclass(frozen=True)
class Verdict:
    """What became of a fault.

    Attributes
    ----------
    state : one of the names above; a fault found by the time limit is killed, by ``timeout``.
    by : the test that failed, or why the fault is equivalent.
    tests, seconds : how many tests ran, and what they cost without the fault.
    source, judges : digests of the faulty file and of the test files that the verdict rests on.
    slow : whether the test that failed is one of those that `make test` leaves out.
    """

    key: str
    title: str
    area: str
    operator: str
    state: str
    by: str
    tests: int
    seconds: float
    source: str
    judges: dict[str, str]
    slow: bool = False

    def to_json(self) -> dict[str, Any]:
        """As the results file has it."""
        return asdict(self)

    def holds(self, fault: Fault, files: list[str], root: Path) -> bool:
        """Whether nothing that the verdict rests on has changed; `files` may judge now."""
        if self.source != digest(root / fault.path):
            return False
        if self.state == SURVIVED and set(files) != set(self.judges):
            return False
        return all(digest(root / file) == seen for file, seen in self.judges.items())


class Judge:
    """Plants faults in a tree and runs tests there."""

    def __init__(
        self, tree: Tree, clean: Tree, baselines: Sequence[Baselines], budget_s: float
    ) -> None:
        self._source, self._tree, self._clean = clean.root, tree, clean
        self._baselines, self._budget_s = baselines, budget_s

    def verdict(self, fault: Fault, area: Area) -> Verdict:
        """Plant the fault, find out, and heal."""
        text = (self._source / fault.path).read_text(encoding="utf-8")
        known = reviewed().get(fault.key)
        reason = known["reason"] if known else None
        if reason is None and same_code(text, planted(text, fault)):
            reason = "the same bytecode"
        if reason is not None:
            return self._verdict(fault, area, EQUIVALENT, reason, [])
        files = judging_files(fault, area, self._source)
        tests, seconds = 0, 0.0
        try:
            for baselines, stage in self._runs(fault, area, files):
                self._tree.plant(fault)
                limit = LIMIT_S + LIMIT_FACTOR * stage.seconds + BUILD_S * area.hardware
                run = run_tests(
                    self._tree, stage.files, order=stage.order, slow=baselines.slow, limit_s=limit
                )
                self._tree.heal()
                tests, seconds = tests + len(stage.order), seconds + stage.seconds
                state, by = _noticed(run, stage)
                if state:
                    killers = [by.split("::")[0]] if "::" in by else list(stage.files)
                    return self._verdict(
                        fault, area, state, by, killers, tests, seconds, baselines.slow
                    )
            if area.hardware and self._same_verilog(fault):
                return self._verdict(fault, area, EQUIVALENT, "the same Verilog, all variants", [])
            return self._verdict(fault, area, SURVIVED, "", files, tests, seconds)
        finally:
            self._tree.heal()

    def _runs(
        self, fault: Fault, area: Area, files: list[str]
    ) -> Iterator[tuple[Baselines, Stage]]:
        for baselines in self._baselines:
            for stage in stages(fault, area, files, baselines, self._budget_s):
                yield baselines, stage

    def _same_verilog(self, fault: Fault) -> bool:
        variants = sorted(path.stem for path in (self._source / "variants").glob("*.toml"))
        # The small ones first: they tell most faults apart.
        variants.sort(key=lambda name: name != "tiny")
        self._tree.plant(fault)
        return same_verilog(self._clean, self._tree, tuple(variants))

    def _verdict(
        self,
        fault: Fault,
        area: Area,
        state: str,
        by: str,
        judges: list[str],
        tests: int = 0,
        seconds: float = 0.0,
        slow: bool = False,
    ) -> Verdict:
        seen = {file: digest(self._source / file) for file in judges}
        source = digest(self._source / fault.path)
        return Verdict(
            fault.key, fault.title, area.name, fault.operator, state, by, tests,
            round(seconds, 1), source, seen, slow,
        )  # fmt: skip


def _noticed(run: Run, stage: Stage) -> tuple[str, str]:
    """The state of the fault and what noticed it; two empty texts where all tests passed."""
    if run.failed:
        return KILLED, run.failed[0]
    if run.timed_out:
        return TIMEOUT, run.last or stage.files[0]
    if run.broken:
        return KILLED, f"{run.last or stage.files[0]}: {run.broken[-80:]}"
    return "", ""
