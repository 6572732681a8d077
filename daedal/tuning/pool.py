"""`Pool`: measures candidates on worker processes, of this machine or of a pool of machines (Dask).

A candidate is a task of Dask under a name made from its content, so it is evaluated once, even for
two coordinators; the candidates of a worker that dies go to another, unless their measurement had
finished (`daedal.tuning.pool_results`). Results are checked here: the
digest of the bytes always, and the cycles of every new best by measuring it again where the workers
are not our own.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import distributed
from distributed.security import Security

from daedal.common.errors import DaedalError, TuningError, first_line
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.space import Config
from daedal.isa.memory_file import AnyMemory
from daedal.isa.variant import Variant
from daedal.native.python_child import (
    SAFE_PATH,
    changed_environment,
    kept_variables,
    without_main,
)
from daedal.shielding import shielded
from daedal.tuning import pool_worker
from daedal.tuning.layer_runner import checked
from daedal.tuning.layer_task import CYCLE_MODEL, LayerTask
from daedal.tuning.pool_results import FinishedResults, measured_by
from daedal.tuning.pool_security import configure, pool_url, security_of, variables_for_workers
from daedal.tuning.pool_worker import TAGS
from daedal.tuning.runner import Failure, Result, cycles_of
from daedal.tuning.sampling import Sampling
from daedal.tuning.sandbox import MEMORY_BYTES, TIMEOUT_SECONDS, Sandbox

__all__ = ["Pool", "PoolRunner"]

_Item = TypeVar("_Item")
_CYCLES = "cycle-model"

CONNECT_SECONDS = 30.0
"""How long a pool may take to answer."""

ABSENT_SECONDS = 120.0
"""How long a pool may be without a worker: one that died is started again within seconds."""

REPLACE_SECONDS = 30.0
"""How long a worker of our own may be missing before another one is started; twice as long each
time, as on a machine that is overloaded more workers start even more slowly."""


class Pool:
    """Workers that measure, until `close`.

    Parameters
    ----------
    workers
        Processes to start on this machine; they end with the pool.
    address
        Of the scheduler of a pool to join instead, ``HOST:PORT``.
    tls
        Folder of certificates for that pool.
    timeout_seconds, memory_bytes
        What a candidate may take.

    Raises
    ------
    TuningError
        Settings that exclude each other, or a pool that is not there or refuses the certificate.
    """

    def __init__(
        self,
        *,
        workers: int = 0,
        address: str | None = None,
        tls: Path | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._sandbox = Sandbox(timeout_seconds, memory_bytes)
        self.timeout_seconds = timeout_seconds
        self._limits = (timeout_seconds, memory_bytes)
        self._version = pool_worker.installed_version()
        self._known: dict[tuple[str, Config], Result] = {}
        self._best: dict[str, int] = {}
        self._sampling = Sampling()
        self._is_ours = address is None
        self._cluster: Any = None
        self._environment = contextlib.ExitStack()
        self._workers = workers
        self._whole = time.monotonic()
        self._patience = REPLACE_SECONDS
        configure()
        if address is None:
            if tls is not None:
                raise TuningError("certificates belong to a pool to join; give its address, too")
            if workers < 1:
                raise TuningError(f"a pool must have at least 1 worker, not {workers}")
            with contextlib.ExitStack() as stack:
                stack.enter_context(kept_variables(variables_for_workers()))
                with changed_environment(SAFE_PATH):
                    self._cluster = _own_cluster(workers)
                self._client = distributed.Client(self._cluster, set_as_default=False)
                self._environment = stack.pop_all()
        else:
            if workers:
                raise TuningError("a pool is either joined or started; give workers or an address")
            self._client = _joined(address, security_of(tls))

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the pool; its own workers end, and variables that were set for them."""
        with self._environment:
            self._sandbox.close()
            self._client.close()
            if self._cluster is not None:
                self._cluster.close()

    def runner(
        self,
        graph: Graph,
        node: Node,
        variant: Variant,
        memory: AnyMemory = "ddr",
        device: str = CYCLE_MODEL,
    ) -> "PoolRunner":
        """A runner like `LayerRunner`, on this pool."""
        return PoolRunner(LayerTask.of(graph, node, variant, memory, device), self)

    def tags(self) -> dict[str, int]:
        """How many workers have each tag."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return {tag: sum(tag in item["resources"] for item in workers) for tag in TAGS}

    @property
    def num_counting(self) -> int:
        """How many workers have a cycle model."""
        return self.tags()[_CYCLES]

    def measure(self, task: LayerTask, configs: Sequence[Config]) -> list[Result]:
        """The checked result of each configuration; one that was measured before is not again.

        Raises
        ------
        TuningError
            No worker has the device, all are gone, or one reports a wrong result.
        """
        missing = [
            config for config in dict.fromkeys(configs) if (task.key, config) not in self._known
        ]
        if missing:
            try:
                self._measure(task, missing)
            except (OSError, CancelledError) as error:
                raise _gone() from error
        return [self._known[task.key, config] for config in configs]

    def call(
        self,
        function: Callable[[Any, Any, str], Any],
        task: Any,
        key: str,
        items: Mapping[str, Any],
        check: Callable[[Any], Any],
    ) -> Iterator[tuple[str, Any]]:
        """The name and the result of each item, as soon as it is known: what a worker with a cycle
        model returns for ``function(task, item, version)``, which works `pool_worker.once`.

        `check` works out an item here: of workers that are not our own, their first results and
        random ones are compared with what it finds.

        `key` names the task. Items of equal names, tasks and functions are evaluated once, also
        for two coordinators. Raises TuningError as `measure`.
        """
        try:
            held = self._client.submit(pool_worker.keep, task, key=f"task-{key}")
            futures = {
                self._client.submit(
                    function,
                    held,
                    item,
                    self._version,
                    key=f"{function.__name__}-{key}-{self._version}-{name}",
                    resources={_CYCLES: 1},
                ): name
                for name, item in items.items()
            }
            for name, future in self._done(futures, _CYCLES):
                found = self._claimed(name, future)
                if self._is_sampled(future) and found != check(items[name]):
                    claim = f"something else than is found here ({name})"
                    raise _lie(self._worker_of(future), claim)
                yield name, found
        except (OSError, CancelledError) as error:
            raise _gone() from error

    def _measure(self, task: LayerTask, configs: Sequence[Config]) -> None:
        (tag,) = (name for name, device in TAGS.items() if device == task.device)
        for config, future in self._done(self._submit(task, configs, tag), tag):
            self._known[task.key, config] = self._accepted(task, config, future)

    def _done(self, futures: dict[Any, _Item], tag: str) -> Iterator[tuple[_Item, Any]]:
        """Each item with its future when it is done; the rest is cancelled at the end."""
        try:
            seen = time.monotonic()
            while futures:
                done = [future for future in futures if future.done()]
                for future in done:
                    yield futures[future], future
                    del futures[future]
                if done:
                    seen = time.monotonic()
                elif futures:
                    seen = self._wait(list(futures), tag, seen)
        finally:
            self._client.cancel(list(futures))

    def _submit(self, task: LayerTask, configs: Sequence[Config], tag: str) -> dict[Any, Config]:
        """A future for each configuration."""
        held = self._client.submit(pool_worker.keep, task.to_bytes(), key=f"task-{task.key}")
        return {
            self._client.submit(
                pool_worker.measure,
                held,
                task.key,
                config.to_json(),
                self._version,
                *self._limits,
                key=f"measure-{task.key}-{self._version}-{self._limits}-{config}",
                resources={tag: 1},
            ): config
            for config in configs
        }

    def _wait(self, futures: list[Any], tag: str, seen: float) -> float:
        """Wait for a future for a while; return when a worker was last there."""
        with self._client.as_current(), contextlib.suppress(TimeoutError):
            distributed.wait(futures, timeout=1.0, return_when="FIRST_COMPLETED")
        if self._client.status != "running":
            raise _gone()
        now = time.monotonic()
        tags = self.tags()
        self._replace(self._workers - tags[tag], now)
        if tags[tag]:
            return now
        if now - seen > ABSENT_SECONDS or (not self._is_ours and any(tags.values())):
            found = ", ".join(f"{count} with {name}" for name, count in tags.items())
            raise TuningError(
                f"the pool must have workers with {tag!r}, and has {found}; add one with "
                f"`daedal pool --join`, and run the same command again: what was measured is kept"
            )
        return seen

    def _replace(self, missing: int, now: float) -> None:
        """Start workers of our own for those that have been missing for long.

        Dask starts a worker again that was killed, but not one that was killed while it started.
        """
        if missing <= 0:
            self._whole, self._patience = now, REPLACE_SECONDS
        elif now - self._whole > self._patience:
            self._cluster.scale(len(self._cluster.worker_spec) + missing)
            self._whole, self._patience = now, 2 * self._patience

    def _accepted(self, task: LayerTask, config: Config, future: Any) -> Result:
        """The result of a future, compared; measured again here if it could be wrong.

        That is: bytes that differ, and of workers that are not our own every new best, every
        failure, the first result of each worker, and random ones.
        """
        claimed = self._claimed(config, future)
        if not isinstance(claimed, Result):
            raise _lie(self._worker_of(future), f"something else, a {type(claimed).__name__}")
        result = checked(task, claimed)
        if (
            result.failure is Failure.WRONG
            or (result.failure is not None and not self._is_ours)
            or (self._is_best(task, result) and not self._is_ours)
            or self._is_sampled(future)
        ):
            result = self._repeated(task, config, result, future)
        if self._is_best(task, result):
            assert result.cycles is not None
            self._best[task.key] = result.cycles
        return result

    def _is_best(self, task: LayerTask, result: Result) -> bool:
        """Whether nothing was faster before."""
        best = self._best.get(task.key)
        return result.cycles is not None and (best is None or result.cycles < best)

    def _is_sampled(self, future: Any) -> bool:
        """Whether a result of a worker that is not our own is worked out again without a reason."""
        return not self._is_ours and self._sampling.takes(self._worker_of(future))

    def _repeated(self, task: LayerTask, config: Config, result: Result, future: Any) -> Result:
        """The result as measured here.

        Raises TuningError where the worker cannot have measured what it returned; one that timed
        out, or was killed, may be on a small or busy machine.
        """
        own = self._here(task, config)
        unclear = (Failure.TIMEOUT, Failure.CRASH)
        if result.failure in unclear:
            return own
        if own.failure in unclear or (own.cycles, own.failure) == (result.cycles, result.failure):
            return result
        if result.failure is Failure.WRONG:
            raise _lie(self._worker_of(future), f"other bytes than the layer's ({config})")
        claim, found = (
            "no program" if item.cycles is None else f"{item.cycles}" for item in (result, own)
        )
        unit = "" if result.cycles is None else " cycles"
        raise _lie(self._worker_of(future), f"{claim}{unit} instead of {found} ({config})")

    def _claimed(self, item: object, future: Any) -> Any:
        """The result of a future that is done, as the worker gave it."""
        try:
            return future.result()
        except (DaedalError, OSError, CancelledError):
            raise
        except Exception as error:
            raise TuningError(
                f"a pool must return a result for each candidate, and {item} has none: "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error

    def _worker_of(self, future: Any) -> str:
        """Address of the worker that measured, which may be gone; else of those with the result."""
        worker = measured_by(self._client, future.key)
        holders = next(iter(self._client.who_has([future]).values()), ())
        return worker or ", ".join(holders) or "unknown"

    def _here(self, task: LayerTask, config: Config) -> Result:
        """The result of one configuration by the cycle model, in processes of our own."""
        own = replace(task, device=CYCLE_MODEL)
        return checked(own, self._sandbox.measure(own.key, own.to_bytes(), config))


class PoolRunner:
    """Measures configurations of the layer `task` on `pool`."""

    def __init__(self, task: LayerTask, pool: Pool) -> None:
        self.task = task
        self.workload = task.workload
        self.limit_seconds = pool.timeout_seconds
        self._pool = pool

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """Cycles of each configuration. Raises TuningError as `cycles_of` and `Pool.measure`."""
        return cycles_of(configs, self.results(configs))

    def results(self, configs: Sequence[Config]) -> list[Result]:
        """See `Runner`."""
        return self._pool.measure(self.task, configs)


def _lie(worker: str, claim: str) -> TuningError:
    return TuningError(
        f"workers must return what they measured, and {worker} returned {claim}; end that worker, "
        "and run the same command again: what was measured is kept"
    )


def _gone() -> TuningError:
    return TuningError(
        "the pool's scheduler must be there until the tuning ends, and it is gone; start it, and "
        "run the same command again: what was measured is kept"
    )


def _own_cluster(workers: int) -> Any:
    """Workers on this machine, which nobody else's processes can reach: with a certificate that
    only these processes know.

    Dask's thread, which starts them and those that replace them later, is shielded with them.
    """
    cluster = None
    try:
        with shielded():
            cluster = _local_cluster(workers)
    except BaseException as error:
        if cluster is not None:
            cluster.close()
        if isinstance(error, OSError | RuntimeError):  # TimeoutError is an OSError
            raise TuningError(
                f"workers must start on this machine, and they do not: {_root(error)}; take fewer "
                "--workers, or none"
            ) from error
        raise
    return cluster


def _root(error: BaseException) -> str:
    """What went wrong first, of an error that Dask may have wrapped."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error) if isinstance(error, Exception) and str(error) else repr(error)


class _Nanny(distributed.Nanny):  # type: ignore[misc] # Dask has no types
    """Starts a worker, and another one if that is killed; neither imports the main module: a user's
    script needs no guard."""

    async def instantiate(self) -> Any:
        """Start the process."""
        with without_main():
            return await super().instantiate()


def _local_cluster(workers: int) -> Any:
    return distributed.LocalCluster(
        worker_class=_Nanny,
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        # Without pages Dask still listens for browsers, by default at one port for all pools.
        scheduler_kwargs={
            "dashboard_address": "127.0.0.1:0",
            "plugins": [FinishedResults()],
        },
        security=Security.temporary(),
        silence_logs=logging.CRITICAL,
        memory_limit=0,
        resources=dict.fromkeys(TAGS, 1),
        preload=pool_worker.PRELOAD,
    )


def _joined(address: str, security: Security | None) -> Any:
    url = pool_url(address, security)
    try:
        return distributed.Client(
            url, security=security, timeout=CONNECT_SECONDS, set_as_default=False
        )
    except (OSError, ValueError, TimeoutError) as error:
        raise TuningError(
            f"a pool must be there and accept this machine's certificate; the one at {url} does "
            f"not: {first_line(error)}; start it with `daedal pool`, or give its certificates with "
            "--tls"
        ) from error
