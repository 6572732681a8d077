"""What a pool believes of workers that are not its own, without any worker."""

import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra `tune` is not installed")

from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config
from daedal.isa.variant import load_variant
from daedal.tuning import pool as pool_module
from daedal.tuning.layer_task import LayerTask
from daedal.tuning.pool import Pool
from daedal.tuning.pool_security import security_of
from daedal.tuning.runner import Failure, Result
from daedal.tuning.sampling import Sampling
from tests.support.certificates import Authority
from tests.support.tuning_layers import small_layer

TINY = load_variant("tiny")
TASK = LayerTask.of(*small_layer(TINY), TINY)
A, B, C = (Config.of(tile=number) for number in range(3))


class Never(Sampling):
    def takes(self, worker: str) -> bool:
        return False


class Judge(Pool):
    """A pool without workers: futures are what they return, and `truth` is measured here."""

    def __init__(self, truth: dict[Config, Result], *, ours: bool = False) -> None:
        self._truth = truth
        self._is_ours = ours
        self._best: dict[str, int] = {}
        self._sampling = Never()
        self.measured: list[Config] = []

    def _worker_of(self, _future: Any) -> str:
        return "worker 1"

    def _claimed(self, _item: object, future: Any) -> Any:
        return future

    def _here(self, _task: LayerTask, config: Config) -> Result:
        self.measured.append(config)
        return self._truth[config]

    def accepted(self, config: Config, claim: Result) -> Result:
        return self._accepted(TASK, config, claim)


def took(cycles: int) -> Result:
    return Result(cycles, TASK.expected_digest)


CRASHED, SLOW, UNBUILT = (
    Result.failed(failure, "x") for failure in (Failure.CRASH, Failure.TIMEOUT, Failure.BUILD)
)


def test_too_many_cycles_are_found_in_a_sample() -> None:
    judge = Judge({A: took(5), B: took(7)})
    assert judge.accepted(A, took(5)).cycles == 5
    judge._sampling = Sampling(one_in=1)
    with pytest.raises(TuningError, match=r"worker 1 returned 9 cycles instead of 7 .*tile=1"):
        judge.accepted(B, took(9))
    assert judge.measured == [A, B]


def test_a_result_that_is_no_sample_and_no_best_is_believed() -> None:
    judge = Judge({A: took(5)})
    judge.accepted(A, took(5))
    assert judge.accepted(B, took(9)).cycles == 9 and judge.measured == [A]


@pytest.mark.parametrize("claim", [CRASHED, SLOW])
def test_a_false_crash_does_not_count(claim: Result) -> None:
    judge = Judge({A: took(5), B: CRASHED})
    assert judge.accepted(A, claim) == took(5)
    assert judge.accepted(B, claim) == CRASHED
    assert judge.accepted(C, took(5)).cycles == 5 and judge.measured == [A, B], "5 is no new best"


def test_a_program_that_builds_here_builds_there() -> None:
    judge = Judge({A: took(5), B: UNBUILT, C: SLOW})
    with pytest.raises(TuningError, match=r"returned no program instead of 5"):
        judge.accepted(A, UNBUILT)
    assert judge.accepted(B, UNBUILT) == UNBUILT
    assert judge.accepted(C, took(3)).cycles == 3, "this machine may be slow"


@pytest.mark.parametrize("claim", [CRASHED, SLOW, UNBUILT, took(9)])
def test_our_own_workers_are_believed(claim: Result) -> None:
    judge = Judge({}, ours=True)
    assert judge.accepted(A, claim) == claim


def test_the_first_result_of_each_worker_is_a_sample() -> None:
    sampling = Sampling(one_in=1_000_000)
    assert [sampling.takes(worker) for worker in "aabba"] == [True, False, True, False, False]
    always = Sampling(one_in=1)
    assert all(always.takes("a") for _ in range(5))


class Called(Pool):
    """As `Judge`, for `call`."""

    def __init__(self, results: dict[str, Any], *, ours: bool) -> None:
        self._results = results
        self._is_ours = ours
        self._version = "1"
        self._client = self  # type: ignore[assignment]
        self._sampling = Sampling()

    def submit(self, *_given: Any, key: str, **_named: Any) -> str:
        return key.rpartition("-")[2]

    def _done(self, futures: Any, _tag: str) -> Any:
        return [(name, name) for name in futures.values()]

    def _claimed(self, item: object, _future: Any) -> Any:
        return self._results[str(item)]

    def _worker_of(self, future: Any) -> str:
        return f"worker of {future}"


@pytest.mark.parametrize("ours", [False, True])
def test_what_is_called_is_compared_too(ours: bool) -> None:
    pool = Called({"a": 2, "b": 5}, ours=ours)

    def found() -> dict[str, Any]:
        items = {"a": 1, "b": 2}
        return dict(pool.call(max, None, "key", items, check=lambda item: 2 * item))

    if ours:
        assert found() == {"a": 2, "b": 5}
        return
    with pytest.raises(TuningError, match=r"worker of b returned something else than is found"):
        found()


def test_a_private_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = Authority("ours").member(tmp_path / "member")
    assert security_of(folder) is not None
    for mode in (0o640, 0o604, 0o644):
        (folder / "key.pem").chmod(mode)
        with pytest.raises(TuningError, match=rf"for its owner alone, .* has mode {mode:o}; make"):
            security_of(folder)


def test_workers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_workers: int) -> None:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert blocked >= {signal.SIGINT, signal.SIGHUP}, "workers never get those of the terminal"
        raise RuntimeError("Nanny failed to start.") from OSError(24, "Too many open files")

    monkeypatch.setattr(pool_module, "_local_cluster", fail)
    with pytest.raises(TuningError, match=r"workers must start .*Too many open files; take fewer"):
        Pool(workers=2)
