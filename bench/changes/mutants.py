"""Single faults planted in the sources: does a test notice? ``python bench/changes/mutants.py``.

Faults are chosen by seed in every area of the project (`bench/changes/mutation/areas.py`) and
planted one at a time in copies of the repository under `.daedal/mutants`, where the tests that
reach the faulty function run until one fails: those of `make test`, then the slow ones. Verdicts
are kept there: a run that was stopped goes on, and a verdict stands until the faulty file, or the
test file that killed, changes. ``--keep`` writes them to `bench/changes/mutation/verdicts.json`,
with which a new clone begins. Exit status 1 when fewer than 98 % of the faults that are not
equivalent are noticed.

``--only isa`` takes one area (or the beginning of paths), ``--at isa/verifier.py:203`` every fault
of a line, ``--report`` prints what is known without running anything. ``--control`` plants what is
no fault, once in each area: nothing may be killed.
"""

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.changes.mutation.areas import AREAS, Area, area_of, choose, files_of
from bench.changes.mutation.faults import Fault, control_of, faults_of
from bench.changes.mutation.judge import KILLED, SURVIVED, TIMEOUT, Judge, Verdict
from bench.changes.mutation.plan import Baselines, judging_files
from bench.changes.mutation.pytest_run import stop_all
from bench.changes.mutation.report import BAR, killed_share, report
from bench.changes.mutation.tree import Tree
from daedal.common.files import write_atomically

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".daedal" / "mutants"
KEPT = Path(__file__).parent / "mutation" / "verdicts.json"

Work = tuple[Fault, Area]


class Results:
    """Verdicts by key, on disk after each; those in `kept` are known where no later one is."""

    def __init__(self, path: Path, kept: Path | None = None) -> None:
        self._path = path
        files = [file for file in (kept, path) if file is not None and file.is_file()]
        known = [item for file in files for item in json.loads(file.read_text(encoding="utf-8"))]
        self.verdicts = {item["key"]: Verdict(**item) for item in known}

    def add(self, verdict: Verdict) -> None:
        """Keep it."""
        self.verdicts[verdict.key] = verdict
        self._path.parent.mkdir(parents=True, exist_ok=True)
        items = [verdict.to_json() for verdict in self.verdicts.values()]
        write_atomically(self._path, json.dumps(items, indent=1) + "\n")

    def keep(self, path: Path, keys: Collection[str]) -> None:
        """Write those of `keys`, a line each, so that a change of one is a change of its line."""
        chosen = [self.verdicts[key].to_json() for key in sorted(keys) if key in self.verdicts]
        lines = ",\n".join(json.dumps(item, sort_keys=True) for item in chosen)
        write_atomically(path, f"[\n{lines}\n]\n")


def main() -> int:
    """Judge what has no verdict yet; print the table."""
    options = _options()
    work = _controls() if options.control else _chosen(options.seed, options.only, options.at)
    results = Results(HOME / "results.json", KEPT)
    if not options.report:
        with _alone(HOME / "lock"):
            pending = _pending(work, results, options.fresh)
            _judge_all(pending, results, options.workers, options.budget)
    known = [results.verdicts[f.key] for f, _ in work if f.key in results.verdicts]
    print(report(known, everything=options.all), end="")
    if len(known) < len(work):
        print(f"\n{len(work) - len(known)} of {len(work)} faults have no verdict yet")
    if options.keep and not options.control:
        drawn = _chosen(options.seed, "", "")  # what was not asked for stays
        results.keep(KEPT, {fault.key for fault, _ in drawn})
    if options.json:
        write_atomically(options.json, json.dumps([v.to_json() for v in known], indent=1) + "\n")
    if options.control:
        return 1 if any(verdict.state in (KILLED, TIMEOUT) for verdict in known) else 0
    return 0 if len(known) == len(work) and killed_share(known) >= BAR else 1


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the copies of the repository: two runs would plant their faults in one tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("another run of this bench is under way; wait for it, or stop it")
        yield


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="an area, or the beginning of paths")
    parser.add_argument("--at", default="", metavar="FILE:LINE", help="every fault of a line")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds of tests per fault")
    parser.add_argument("--control", action="store_true", help="plant what is no fault")
    parser.add_argument("--fresh", action="store_true", help="judge again what has a verdict")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--keep", action="store_true", help="write the verdicts for later clones")
    parser.add_argument("--all", action="store_true", help="list the killed ones, too")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _chosen(seed: int, only: str, at: str) -> list[Work]:
    if at:
        path, _, line = at.partition(":")
        source = (ROOT / path).read_text(encoding="utf-8")
        area = area_of(path, ROOT)
        return [(f, area) for f in faults_of(path, source) if not line or f.line == int(line)]
    work = [(fault, area) for area in AREAS for fault in choose(area, ROOT, seed)]
    return [(f, a) for f, a in work if not only or a.name == only or f.path.startswith(only)]


def _controls() -> list[Work]:
    """One in each area, in the middle of its files."""
    work = list[Work]()
    for area in AREAS:
        paths = list(files_of(area, ROOT))
        path = paths[len(paths) // 2]
        work.append((control_of(path, (ROOT / path).read_text(encoding="utf-8")), area))
    return work


def _pending(work: list[Work], results: Results, fresh: bool) -> list[Work]:
    def stands(fault: Fault, area: Area) -> bool:
        verdict = results.verdicts.get(fault.key)
        return verdict is not None and verdict.holds(fault, judging_files(fault, area, ROOT), ROOT)

    return [(fault, area) for fault, area in work if fresh or not stands(fault, area)]


def _judge_all(work: list[Work], results: Results, workers: int, budget_s: float) -> None:
    """All of `work`, with a line for each verdict; Control-C keeps what there is."""
    if not work:
        return
    clean = Tree(ROOT, HOME / "clean", HOME / "caches")
    baselines = (
        Baselines(clean, HOME / "baselines"),
        Baselines(clean, HOME / "slow_baselines", slow=True),
    )
    idle: Queue[Judge] = Queue()
    for number in range(workers):
        tree = Tree(ROOT, HOME / f"worker{number}", HOME / "caches")
        idle.put(Judge(tree, clean, baselines, budget_s))

    def judge(fault: Fault, area: Area) -> Verdict:
        judge = idle.get()
        try:
            return judge.verdict(fault, area)
        finally:
            idle.put(judge)

    began, done = time.monotonic(), 0
    pool = ThreadPoolExecutor(workers)
    running: set[Future[Verdict]] = {pool.submit(judge, *item) for item in work}
    try:
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                verdict, done = future.result(), done + 1
                results.add(verdict)
                left = (time.monotonic() - began) / done * (len(work) - done)
                mark = "!" if verdict.state == SURVIVED else " "
                print(
                    f"{done}/{len(work)} {mark} {verdict.state:10} {verdict.title}: {verdict.by} "
                    f"[{left / 60:.0f} min left]",
                    flush=True,
                )
    except KeyboardInterrupt:
        stop_all()
        print("stopped; run again to go on", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    # On a loaded machine the first number says little; the second, by workers, is a free one's.
    times = os.times()
    cpu = times.user + times.system + times.children_user + times.children_system
    wall = time.monotonic() - began
    print(f"{done} verdicts in {wall / 60:.1f} min, {cpu / 60:.1f} min of CPU\n", flush=True)


if __name__ == "__main__":
    # As Control-C, also for a run in the background, where a shell has Control-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
