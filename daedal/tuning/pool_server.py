"""`serve` and `join`: the scheduler of a pool, and worker processes of one, until they end."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Nanny, Scheduler
from distributed.security import Security

from daedal.isa.errors import TuningError, first_line
from daedal.tuning.pool_results import FinishedResults
from daedal.tuning.pool_security import configure, pool_url, security_of
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
    scheduler = Scheduler(
        host=parts.hostname,
        port=parts.port,
        protocol=f"{parts.scheme}://",
        security=security,
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        plugins=[FinishedResults()],
    )
    try:
        await scheduler
    except (OSError, RuntimeError) as error:
        raise TuningError(
            f"a pool must listen at an address of this machine that is free; {address!r:.80} is "
            f"not: {_reason(error)}; choose another"
        ) from error
    async with scheduler:
        say(f"pool at {scheduler.address}")
        await _work(scheduler.address, security, workers, tags, say)
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
    await _work(pool_url(address, security), security, workers, tags, say, wait=True)


def check_tags(tags: Sequence[str]) -> None:
    """Raise TuningError for tags that no device has."""
    unknown = sorted(set(tags) - set(TAGS))
    if unknown or not tags:
        raise TuningError(
            f"a worker has at least one tag of {', '.join(TAGS)}, not "
            f"{', '.join(map(repr, unknown)) or 'none'}"
        )


async def _work(
    url: str,
    security: Security | None,
    workers: int,
    tags: Sequence[str],
    say: Callable[[str], None],
    *,
    wait: bool = False,
) -> None:
    """Start workers; with `wait`, return when they have ended."""
    async with contextlib.AsyncExitStack() as stack:
        nannies = [
            Nanny(
                url,
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
