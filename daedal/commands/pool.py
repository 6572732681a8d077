"""``daedal pool``: starts a pool of machines for `daedal tune`, or adds this machine to one."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.common.errors import UserError
from daedal.reports.console import make_console

__all__ = ["pool_command"]


def pool_command(
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Start a pool at this address; port 0 is any."),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Add this machine's workers to the pool at this address."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes that measure.")] = 1,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG",
            help="What the workers can measure on: cycle-model, rtl. Both by default.",
        ),
    ] = None,
    tls: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Certificates: ca.pem, cert.pem and key.pem (docs/pool.md)."
        ),
    ] = None,
) -> None:
    """Start a pool of workers, or join one, until it is interrupted.

    `daedal tune --pool HOST:PORT` measures on it. Beyond this machine certificates are required:
    the members of a pool run each other's code.
    """
    if (listen is None) == (join is None):
        raise UserError("a pool is either started or joined; give --listen or --join")
    from daedal.tuning.pool_access import needs_pool_packages

    with needs_pool_packages():
        from daedal.tuning.pool_server import join as join_pool
        from daedal.tuning.pool_server import serve
        from daedal.tuning.pool_worker import TAGS

    console = make_console()

    def say(sentence: str) -> None:
        console.print(escape(sentence), soft_wrap=True)
        console.file.flush()

    tags = tag if tag else list(TAGS)
    if listen is not None:
        asyncio.run(serve(listen, tls, workers, tags, say))
    else:
        assert join is not None
        asyncio.run(join_pool(join, tls, workers, tags, say))
