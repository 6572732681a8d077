"""`Pool`: the cycles of one process, whoever dies; liars and strangers are refused."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="the extra `tune` is not installed")

from daedal.common.errors import TuningError  # noqa: E402
from daedal.compiler.ops.space import Config  # noqa: E402
from daedal.isa.variant import load_variant  # noqa: E402
from daedal.tuning import pool as pool_module  # noqa: E402
from daedal.tuning import pool_worker  # noqa: E402
from daedal.tuning.layer_runner import LayerRunner  # noqa: E402
from daedal.tuning.layer_task import RTL  # noqa: E402
from daedal.tuning.pool import Pool  # noqa: E402
from daedal.tuning.pool_security import pool_url, security_of  # noqa: E402
from daedal.tuning.runner import Failure, Result  # noqa: E402
from tests.support import rtl_worker  # noqa: E402
from tests.support.certificates import Authority  # noqa: E402
from tests.support.hostile_folder import HostileFolder  # noqa: E402
from tests.support.pools import COMMAND, served  # noqa: E402
from tests.support.processes import alive, wait_until  # noqa: E402
from tests.support.tuning_layers import harmful, small_layer, space  # noqa: E402

TINY = load_variant("tiny")
LAYER = small_layer(TINY)

# Dask's loops leave sockets to the garbage collector when a pool ends in the middle of something.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("pool"),
]


def drawn(count: int) -> list[Config]:
    return space(*LAYER, TINY).sample(np.random.default_rng(5), count)


def test_a_worker_that_does_not_come_back_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "REPLACE_SECONDS", 1.0)
    configs = drawn(30)
    with Pool(workers=2) as pool:
        pool._cluster.scale(1)
        wait_until(lambda: pool.tags()["cycle-model"] == 1)
        assert None not in pool.runner(*LAYER, TINY)(configs)
        wait_until(lambda: pool.tags()["cycle-model"] >= 2)


SCRIPT = """
from daedal.tuning.pool import Pool

print("the script runs")
with Pool(workers=1) as pool:
    print(pool.tags()["cycle-model"])
"""


@pytest.mark.heavy(20)
def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Its workers do not import it: there, it would start a pool again."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the script runs\n1\n"


def test_workers_that_start_slowly_are_not_replaced_ever_faster() -> None:
    """A machine under load would be buried in processes."""
    scaled: list[int] = []
    pool = object.__new__(Pool)
    pool._whole, pool._patience = 0.0, 30.0
    pool._cluster = mock.Mock(worker_spec=[None])
    pool._cluster.scale = scaled.append
    for now in range(1, 1000):
        pool._replace(1, float(now))
    assert len(scaled) == 5, "after 31 seconds, and each time about twice as many"
    pool._replace(0, 1000.0)
    pool._replace(1, 1029.0)
    assert len(scaled) == 5
    pool._replace(1, 1031.0)
    assert len(scaled) == 6


# What workers of the tests do instead of measuring.

_measure = pool_worker.measure


def claim_other_bytes(*arguments: object) -> Result:
    found = _measure(*arguments)  # type: ignore[arg-type]
    return Result(found.cycles, "0" * 64)


def claim_one_cycle(*arguments: object) -> Result:
    return Result(1, _measure(*arguments).digest)  # type: ignore[arg-type]


def claim_nothing(*arguments: object) -> str:
    return "5 cycles"


counted: list[object] = []
released = threading.Event()


def count_and_measure(*arguments: object) -> Result:
    counted.append(arguments)
    released.wait()
    return _measure(*arguments)  # type: ignore[arg-type]


def release() -> None:
    released.set()


def num_counted() -> int:
    return len(counted)


def replace_measure(name: str) -> None:
    pool_worker.measure = globals()[name]


def test_workers_of_this_machine_measure_what_this_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = HostileFolder(tmp_path / "download")
    hostile.enter(monkeypatch)
    configs = drawn(6)
    expected = LayerRunner(*LAYER, TINY)(configs)
    with Pool(workers=2) as pool:
        assert pool.tags() == {"cycle-model": 2, "rtl": 2}
        runner = pool.runner(*LAYER, TINY)
        assert runner(configs) == expected
        submitted = []
        pool._submit = lambda *arguments: submitted.append(arguments)  # type: ignore[method-assign]
        assert runner([*configs, *configs]) == expected * 2
        assert submitted == [], "what is known is not measured again"
        del pool._submit
        (failed,) = runner.results([harmful(configs[0], "unbuildable")])
        assert failed.failure is Failure.BUILD
        assert runner.workload == LayerRunner(*LAYER, TINY).workload
        pids = list(pool._client.run(os.getpid).values())
        pool._version = "0.0"
        with pytest.raises(TuningError, match=r"must have the coordinator's Daedal, 0\.0, not"):
            runner(drawn(7)[6:])
    wait_until(lambda: not any(map(alive, pids)))
    assert hostile.imported == []


def test_candidates_of_a_worker_that_dies_are_measured_by_another() -> None:
    configs = drawn(24)
    with Pool(workers=2) as pool:
        runner = pool.runner(*LAYER, TINY)
        (first,) = runner(configs[:1])
        pids = pool._client.run(os.getpid)
        accepted: list[Config] = []
        accept = pool._accepted

        def accept_and_count(task: object, config: Config, future: object) -> Result:
            accepted.append(config)
            if len(accepted) == 4:
                os.kill(min(pids.values()), signal.SIGKILL)
            return accept(task, config, future)  # type: ignore[arg-type]

        pool._accepted = accept_and_count  # type: ignore[method-assign]
        found = runner(configs)
        later = pool._client.run(os.getpid)
    assert sorted(map(str, accepted)) == sorted(map(str, configs[1:])), "each once"
    assert min(pids.values()) not in later.values(), "the worker was killed"
    assert found == LayerRunner(*LAYER, TINY)(configs) and found[0] == first


@pytest.mark.rtl
def test_a_worker_measures_on_the_rtl(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pool_worker, "PRELOAD", rtl_worker.__name__)
    log = tmp_path / "opened"
    monkeypatch.setenv(rtl_worker.LOG, str(log))
    configs = drawn(2)
    expected = LayerRunner(*LAYER, TINY).results(configs)
    with Pool(workers=1) as pool:
        runner = pool.runner(*LAYER, TINY, device=RTL)
        assert runner.results(configs) == expected
    assert log.read_text().split() == ["rtl"] * (1 + len(configs)), "to prepare, and for each"


def test_a_worker_that_lies_is_refused() -> None:
    config, other, third, _ = drawn(4)
    with served("--listen", "127.0.0.1:0", "--tag", "cycle-model") as address:
        with Pool(address=address) as pool:
            assert pool.tags() == {"cycle-model": 1, "rtl": 0}
            runner = pool.runner(*LAYER, TINY)
            assert runner([config]) == LayerRunner(*LAYER, TINY)([config])
            with pytest.raises(TuningError, match=r"must have workers with 'rtl', and has 1 with"):
                pool.runner(*LAYER, TINY, device="rtl")([config])
            for name, config, words in (
                ("claim_other_bytes", other, r"tcp://127.* returned other bytes than the layer's"),
                ("claim_one_cycle", third, r"returned 1 cycles instead of \d+"),
                ("claim_nothing", drawn(4)[3], r"returned something else, a str; end that worker"),
            ):
                pool._client.run(replace_measure, name)
                with pytest.raises(TuningError, match=words):
                    runner([config])


def test_two_coordinators_share_what_both_ask_for() -> None:
    configs = drawn(3)
    with served("--listen", "127.0.0.1:0") as address:
        with Pool(address=address) as first, Pool(address=address) as second:
            first._client.run(replace_measure, "count_and_measure")
            task = first.runner(*LAYER, TINY).task
            both = [pool._submit(task, configs, "cycle-model") for pool in (first, second)]
            # Whatever the scheduler hears from a coordinator afterwards, it has the candidates.
            assert first.tags() == second.tags()
            first._client.run(release)
            found = [[future.result().cycles for future in futures] for futures in both]
            (count,) = first._client.run(num_counted).values()
    assert found[0] == found[1] == LayerRunner(*LAYER, TINY)(configs)
    assert count == len(configs)


def test_strangers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Authority("ours"), Authority("theirs")
    server, member = ours.member(tmp_path / "server"), ours.member(tmp_path / "member")
    stranger = theirs.member(tmp_path / "stranger")
    expired = ours.member(tmp_path / "expired", expired=True)
    monkeypatch.setattr(pool_module, "CONNECT_SECONDS", 5.0)
    (config,) = drawn(1)
    with served("--listen", "127.0.0.1:0", "--tls", str(server)) as address:
        assert address.startswith("tls://")
        with Pool(address=address, tls=member) as pool:
            assert pool.runner(*LAYER, TINY)([config]) == LayerRunner(*LAYER, TINY)([config])
            for folder in (stranger, expired):
                with pytest.raises(TuningError, match="accept this machine's certificate; the one"):
                    Pool(address=address, tls=folder)
            with pytest.raises(TuningError, match="a pool must be there and accept this machine's"):
                Pool(address=address.removeprefix("tls://"))
            joining = subprocess.run(
                [
                    *(sys.executable, "-c", COMMAND, "pool"),
                    *("--join", address, "--tls", str(stranger)),
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert joining.returncode == 2 and joining.stderr.count("error:") == 1
            assert "accept this machine's certificate" in " ".join(joining.stderr.split())
            assert pool.tags()["cycle-model"] == 1, "the stranger is no worker"


def test_a_pool_listens_at_its_address_alone() -> None:
    """`served` checks it for every pool, with and without certificates: whoever reaches a member of
    one without may run code there."""
    with served("--listen", "127.0.0.1:0", "--workers", "0") as address:
        assert address.startswith("tcp://127.0.0.1:")


def test_a_pool_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CONNECT_SECONDS", 0.5)
    with pytest.raises(TuningError, match=r"a pool must be there .*tcp://127\.0\.0\.1:9 does not"):
        Pool(address="127.0.0.1:9")


def test_a_scheduler_that_goes_away(capfd: pytest.CaptureFixture[str]) -> None:
    configs = drawn(12)
    with served("--listen", "127.0.0.1:0", "--workers", "0") as address:
        pool = Pool(address=address)
        scheduler = pool._client.run_on_scheduler(os.getpid)
        timer = threading.Timer(2.0, os.kill, (scheduler, signal.SIGINT))
        timer.start()
        with pytest.raises(TuningError, match="the pool's scheduler must be there until"):
            pool.runner(*LAYER, TINY)(configs)
        timer.join()
        pool.close()
        wait_until(lambda: not alive(scheduler))
    assert "distributed" not in capfd.readouterr().err, "Dask's log is not shown"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("192.0.2.1:80", "a pool beyond this machine must have certificates"),
        ("tls://127.0.0.1:80", "a pool beyond this machine must have certificates"),
        ("example:80", "a pool beyond this machine must have certificates"),
        ("127.0.0.1", "a pool's address must be HOST:PORT, .* not '127.0.0.1'"),
        ("http://127.0.0.1:80", "a pool's address must be HOST:PORT"),
        ("127.0.0.1:66000", "a pool's address must be HOST:PORT"),
        (":80", "a pool's address must be HOST:PORT"),
        ("127.0.0.1:80/x", "a pool's address must be HOST:PORT"),
    ],
)
def test_addresses_are_checked(address: str, words: str) -> None:
    with pytest.raises(TuningError, match=words):
        pool_url(address, None)


def test_certificates_are_checked(tmp_path: Path) -> None:
    authority = Authority("ours")
    folder, other = authority.member(tmp_path / "a"), authority.member(tmp_path / "b")
    security = security_of(folder)
    assert pool_url("192.0.2.1:80", security) == "tls://192.0.2.1:80"
    with pytest.raises(TuningError, match=r"has an address with tls://, not 'tcp://127.0.0.1:80'"):
        pool_url("tcp://127.0.0.1:80", security)
    (folder / "key.pem").write_bytes((other / "key.pem").read_bytes())
    with pytest.raises(TuningError, match="must be PEM files that belong together"):
        security_of(folder)
    (folder / "cert.pem").write_bytes(b"")
    with pytest.raises(TuningError, match="must be PEM files that belong together"):
        security_of(folder)
    (folder / "ca.pem").unlink()
    with pytest.raises(TuningError, match=r"'.*ca\.pem' is missing; docs/pool\.md shows how"):
        security_of(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "a pool must have at least 1 worker, not 0"),
        ({"workers": -1}, "a pool must have at least 1 worker, not -1"),
        ({"workers": 1, "address": "127.0.0.1:9"}, "either joined or started"),
        ({"workers": 1, "tls": Path("x")}, "certificates belong to a pool to join"),
        ({"workers": 1, "timeout_seconds": 0}, "must be more than 0 s, not 0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(TuningError, match=words):
        Pool(**settings)  # type: ignore[arg-type]
