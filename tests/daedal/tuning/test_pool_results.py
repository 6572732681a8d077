"""Results that workers handed in: kept when the worker dies, and checked like all others."""

import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="the extra `tune` is not installed")

from daedal.common.errors import TuningError  # noqa: E402
from daedal.compiler.ops.space import Config  # noqa: E402
from daedal.isa.variant import load_variant  # noqa: E402
from daedal.tuning import pool_worker  # noqa: E402
from daedal.tuning.layer_runner import LayerRunner  # noqa: E402
from daedal.tuning.pool import Pool  # noqa: E402
from daedal.tuning.pool_results import measured_by  # noqa: E402
from daedal.tuning.runner import Result  # noqa: E402
from tests.support import dying_worker  # noqa: E402
from tests.support.pools import served  # noqa: E402
from tests.support.processes import wait_until  # noqa: E402
from tests.support.tuning_layers import small_layer, space  # noqa: E402

TINY = load_variant("tiny")
LAYER = small_layer(TINY)

# As in `test_pool`.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("pool"),
]

_measure = pool_worker.measure
released = threading.Event()


def drawn(count: int) -> list[Config]:
    return space(*LAYER, TINY).sample(np.random.default_rng(5), count)


# What the workers do.


def wait_and_measure(*arguments: object) -> Result:
    released.wait()
    return _measure(*arguments)  # type: ignore[arg-type]


def release() -> None:
    released.set()


def hold() -> None:
    released.clear()


def replace_measure() -> None:
    pool_worker.measure = wait_and_measure


def test_a_finished_candidate_is_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pool_worker, "PRELOAD", dying_worker.__name__)
    log = tmp_path / "measured"
    monkeypatch.setenv(dying_worker.LOG, str(log))
    configs = drawn(3)
    with Pool(workers=1) as pool:
        found = pool.runner(*LAYER, TINY)(configs)
    assert sorted(log.read_text().splitlines()) == sorted(map(str, configs)), "each once"
    assert found == LayerRunner(*LAYER, TINY)(configs)


def test_finished_results_are_kept_for_tasks_that_somebody_wants() -> None:
    (config,) = drawn(1)
    with Pool(workers=1) as pool:
        task = pool.runner(*LAYER, TINY).task
        futures = pool._submit(task, [config], "cycle-model")
        (future,) = futures
        assert future.result().cycles is not None
        key = future.key
        (worker,) = pool._client.run(os.getpid)
        assert measured_by(pool._client, key) == worker
        hand_in = pool._client.scheduler.daedal_hand_in
        pool._client.sync(hand_in, key=key, worker="another", result=b"")
        assert measured_by(pool._client, key) == worker, "the first one counts"
        future.release()
        futures.clear()
        wait_until(lambda: measured_by(pool._client, key) is None)
        pool._client.sync(hand_in, key=key, worker=worker, result=b"")
        assert measured_by(pool._client, key) is None, "nobody wants it"


def test_a_lie_that_was_handed_in_is_refused_and_its_worker_named() -> None:
    config, other = drawn(2)
    with served("--listen", "127.0.0.1:0") as address, Pool(address=address) as pool:
        task = pool.runner(*LAYER, TINY).task
        for claimed, lie, words in (
            (config, Result(1, task.expected_digest), r"tcp://liar returned 1 cycles instead of"),
            (other, Result(1, "0" * 64), r"tcp://liar returned other bytes than the layer's"),
        ):
            pool._client.run(replace_measure)
            (future,) = pool._submit(task, [claimed], "cycle-model")
            data = {"key": future.key, "worker": "tcp://liar", "result": pickle.dumps(lie)}
            wait_until(lambda key=future.key: key in str(pool._client.processing()))
            assert pool._client.sync(pool._client.scheduler.daedal_hand_in, **data)
            pool._client.run(release)
            with pytest.raises(TuningError, match=words):
                pool.measure(task, [claimed])
            pool._client.run(hold)
