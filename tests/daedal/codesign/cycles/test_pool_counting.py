"""Counting on the tuner's pool: what this process counts, once, whoever dies."""

import os
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="the extra `tune` is not installed")

from daedal.codesign.cycles import pool_counting
from daedal.codesign.cycles.counting import Network, count_networks
from daedal.codesign.cycles.host_shares import host_share
from daedal.codesign.cycles.pool_counting import pool_counter
from daedal.codesign.cycles.work import Counts
from daedal.common.errors import TuningError
from daedal.host.rates import DEFAULT, load_host_rates
from daedal.isa.variant import Variant, load_variant
from daedal.tuning.pool import Pool
from tests.support.pools import served

MODEL = (Path(__file__).parents[4] / "examples" / "digits" / "digits_qdq.onnx").read_bytes()
NETWORKS = {"digits": Network(MODEL)}
BASE = load_variant("ecp5_half")
RUN = [BASE.replace(queue_depth=depth, alu_lanes=lanes) for depth in (4, 8) for lanes in (1, 2, 4)]
REFUSED = BASE.replace(acc_bytes=128)  # it leaves layers to the host

# Dask's loops leave sockets to the garbage collector when a pool ends in the middle of something.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("pool"),
]


# What workers of the tests do besides counting.


def log_counts(path: str) -> int:
    """Each variant that this process counts becomes a line of a file. Returns its number."""

    def logged(networks: Mapping[str, Network], variant: Variant, memory: str) -> Counts | None:
        found = count_networks(networks, variant, memory)
        with open(path, "a") as file:
            file.write(f"{variant.fingerprint}\n")
        return found

    pool_counting.count_networks = logged
    return os.getpid()


def counted(path: Path) -> Counter[str]:
    return Counter(path.read_text().split())


def test_a_pool_counts_what_this_process_does() -> None:
    with served("--listen", "127.0.0.1:0") as address, Pool(address=address) as pool:
        assert pool.num_counting == 1
        count = pool_counter(pool, NETWORKS, "ddr")
        found = dict(count([RUN[0], REFUSED, RUN[1]]))
        assert found == {
            0: count_networks(NETWORKS, RUN[0], "ddr"),
            1: None,
            2: count_networks(NETWORKS, RUN[1], "ddr"),
        }
        assert found[0] is not None
        # What the host may compute makes another task.
        share = host_share(MODEL, REFUSED, load_host_rates(DEFAULT))
        assert share is not None
        allowed = {"digits": Network(MODEL, share.tensors)}
        ((_, cycles),) = pool_counter(pool, allowed, "ddr")([REFUSED])
        assert cycles == count_networks(allowed, REFUSED, "ddr") and cycles is not None
        pool._version = "0.0"
        with pytest.raises(TuningError, match=r"must have the coordinator's Daedal, 0\.0, not"):
            list(count(RUN[2:3]))


def test_a_killed_worker_loses_no_result(tmp_path: Path) -> None:
    log = tmp_path / "counted"
    before = dict(os.environ)
    with Pool(workers=2) as pool:
        pids = pool._client.run(log_counts, str(log))
        found: dict[int, Any] = {}
        for number, cycles in pool_counter(pool, NETWORKS, "ddr")(RUN):
            assert number not in found
            found[number] = cycles
            if len(found) == 2:
                os.kill(min(pids.values()), signal.SIGKILL)
        later = pool._client.run(os.getpid)
    assert min(pids.values()) not in later.values(), "the worker was killed"
    assert os.environ == before, "workers' variables end with the pool"
    assert found == {n: count_networks(NETWORKS, item, "ddr") for n, item in enumerate(RUN)}
    again = [name for name, times in counted(log).items() if times > 1]
    assert len(again) <= 1, "only what the killed worker counted just then is counted again"


def test_two_searches_count_a_variant_once(tmp_path: Path) -> None:
    log = tmp_path / "counted"
    with (
        served("--listen", "127.0.0.1:0") as address,
        Pool(address=address) as first,
        Pool(address=address) as second,
    ):
        first._client.run(log_counts, str(log))
        searches = [pool_counter(pool, NETWORKS, "ddr")(RUN[:3]) for pool in (first, second)]
        begun = [next(search) for search in searches]  # submits all
        found = [dict([item, *search]) for item, search in zip(begun, searches, strict=True)]
    assert (
        found[0]
        == found[1]
        == {number: count_networks(NETWORKS, item, "ddr") for number, item in enumerate(RUN[:3])}
    )
    assert counted(log) == {item.fingerprint: 1 for item in RUN[:3]}
