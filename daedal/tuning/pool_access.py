"""Pools for public functions: the packages that they need, and a pool that is joined for a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from daedal.common.errors import ToolError, TuningError

if TYPE_CHECKING:  # Dask loads slowly, and may be missing
    from daedal.tuning.pool import Pool

__all__ = ["joined_pool", "needs_pool_packages"]


@contextmanager
def needs_pool_packages() -> Iterator[None]:
    """Raise ToolError where a package that pools need is missing."""
    try:
        yield
    except ImportError as error:
        raise ToolError(
            f"a pool needs the Python package {error.name!r}, which is missing; install "
            "daedal[tune]"
        ) from error


@contextmanager
def joined_pool(
    address: str | None,
    tls: str | Path | None,
    *,
    workers: int = 0,
    timeout_seconds: float | None = None,
    report: Callable[[str], None],
) -> Iterator["Pool | None"]:
    """The pool at `address`, or one of `workers` processes of this machine, until the end of the
    block; None where neither is given.

    Raises
    ------
    TuningError
        As `Pool`, and for settings of a pool without one.
    ToolError
        A package that pools need is missing.
    """
    if not workers and address is None:
        if tls is not None or timeout_seconds is not None:
            raise TuningError("tls and timeout are for pools; give workers or a pool, too")
        yield None
        return
    with needs_pool_packages():
        from daedal.tuning.pool import Pool
        from daedal.tuning.sandbox import TIMEOUT_SECONDS
    report("starting workers" if address is None else "joining the pool")
    with Pool(
        workers=workers,
        address=address,
        tls=None if tls is None else Path(tls),
        timeout_seconds=TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
    ) as pool:
        yield pool
