"""`serve` and `join`: the scheduler of a pool, and worker processes of one, until they end."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Nanny, Scheduler
from distributed.comm.addressing import unparse_host_port
from distributed.security import Security
from distributed.utils import get_ip

from daedal.common.errors import TuningError, first_line
from daedal.tuning.pool_results import FinishedResults
from daedal.tuning.pool_security import configure, is_any_address, pool_url, security_of
from daedal.tuning.pool_worker import PRELOAD, TAGS

__all__ = ["check_tags", "join", "serve"]

JOIN_SECONDS = 30.0
"""How long a scheduler may take to accept a worker."""


async def serve(
    address: str,
    tls: Path | None,
    workers: int,
    tags: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Run a scheduler at `address` with so many workers on this machine, until it is cancelled.

    Raises
    ------
    TuningError
        The address is taken or cannot be listened at, certificates are missing, or a tag is
        unknown.
    """
    check_tags(tags)
    security = security_of(tls)
    parts = urlsplit(pool_url(address, security))
    configure()
    host = str(parts.hostname)
    scheduler = _scheduler(parts.scheme, host, parts.port, security)
    try:
        await scheduler
    except (OSError, RuntimeError) as error:
        raise TuningError(
            f"a pool must listen at an address of this machine that is free; {address!r:.80} is "
            f"not: {_reason(error)}; choose another"
        ) from error
    async with scheduler:
        say(f"pool at {scheduler.address}")
        workers_host = _host_towards(scheduler.address) if is_any_address(host) else host
        await _work(scheduler.address, workers_host, security, workers, tags, say)
        await scheduler.finished()


async def join(
    address: str,
    tls: Path | None,
    workers: int,
    tags: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Run so many workers for the scheduler at `address`, until the scheduler ends them.

    Raises
    ------
    TuningError
        There is no scheduler or it refuses the certificate; or as `serve`.
    """
    check_tags(tags)
    if workers < 1:
        raise TuningError(f"a machine joins a pool with at least 1 worker, not {workers}")
    security = security_of(tls)
    configure()
    url = pool_url(address, security)
    await _work(url, _host_towards(url), security, workers, tags, say, wait=True)


def check_tags(tags: Sequence[str]) -> None:
    """Raise TuningError for tags that no device has."""
    unknown = sorted(set(tags) - set(TAGS))
    if unknown or not tags:
        raise TuningError(
            f"a worker has at least one tag of {', '.join(TAGS)}, not "
            f"{', '.join(map(repr, unknown)) or 'none'}"
        )


def _scheduler(scheme: str, host: str, port: int | None, security: Security | None) -> Scheduler:
    """One that listens at `host` alone."""
    http_host = "127.0.0.1" if is_any_address(host) else host
    return Scheduler(
        host=unparse_host_port(host),
        port=port,
        protocol=f"{scheme}://",
        security=security,
        dashboard=False,
        dashboard_address=[(http_host, 0)],  # Dask listens for browsers even without pages
        plugins=[FinishedResults()],
    )


def _host_towards(url: str) -> str:
    """The address of this machine that connections to the scheduler at `url` come from."""
    return str(get_ip(urlsplit(url).hostname))


async def _work(
    url: str,
    host: str,
    security: Security | None,
    workers: int,
    tags: Sequence[str],
    say: Callable[[str], None],
    *,
    wait: bool = False,
) -> None:
    """Start workers that listen at `host` alone; with `wait`, return when they have ended."""
    async with contextlib.AsyncExitStack() as stack:
        nannies = [
            Nanny(
                url,
                host=unparse_host_port(host),  # by default, workers listen on all interfaces
                nthreads=1,
                security=security,
                resources=dict.fromkeys(tags, 1),
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                death_timeout=JOIN_SECONDS,
                dashboard=False,
                preload=PRELOAD,
            )
            for _ in range(workers)
        ]
        for nanny in nannies:
            try:
                await stack.enter_async_context(nanny)
            except (OSError, TimeoutError, RuntimeError) as error:
                raise TuningError(
                    f"a pool must be there and accept this machine's certificate; the one at "
                    f"{url} does not: {_reason(error)}; start it with `daedal pool`, or give "
                    "its certificates with --tls"
                ) from error
        if workers:
            count = "1 worker" if workers == 1 else f"{workers} workers"
            say(f"{count} with {', '.join(tags)} at {url}")
        if wait:
            for nanny in nannies:
                await nanny.finished()
        else:
            stack.pop_all()  # they end with the scheduler


def _reason(error: Exception) -> str:
    """What went wrong, of an error that Dask may have wrapped in "failed to start"."""
    cause = error.__cause__
    return first_line(cause if isinstance(cause, Exception) and str(cause) else error)
