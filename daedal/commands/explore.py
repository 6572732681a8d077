"""``daedal explore``: searches hardware parameters and schedules together."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from daedal.commands.options import (
    BOARDS,
    MEASURED,
    MEMORY,
    HostRatesOf,
    Json,
    PoolAddress,
    PoolCertificates,
    needs_pool_packages,
)
from daedal.common.errors import ExploreError
from daedal.common.files import write_atomically
from daedal.hw.synth.families import Target
from daedal.reports.console import make_console, print_json, print_wide, show_progress

if TYPE_CHECKING:
    from daedal.codesign.hardware.board import Board
    from daedal.codesign.results.point_folder import PointFolder
    from daedal.codesign.results.verify import Verified
    from daedal.compiler.targets.crossings import HostRates
    from daedal.tuning.pool import Pool

__all__ = ["explore_command"]

_INTERRUPTED = 130
_WORKERS = 2


def explore_command(
    models: Annotated[list[Path], typer.Argument(help="int8 QDQ ONNX models.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")],
    target: Annotated[Target | None, typer.Option(help="The device.")] = None,
    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD|FILE",
            help="The board instead of a device: its memory, the clock that this allows, and the "
            f"area of its logic count; {BOARDS}.",
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option(help="What to minimize, separated by commas: latency, area, energy.")
    ] = "latency,area",
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="A limit: latency (ms), energy (relative), or area, lut, ff, dsp, block_ram (% of "
            "the device), such as latency=1.5; may be repeated."
        ),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="Time to search, of all runs.")
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="Variants to compile instead of a time.")
    ] = None,
    base: Annotated[
        str, typer.Option(help="Variant whose other parameters all results have.")
    ] = "ecp5",
    clock: Annotated[
        float | None, typer.Option(metavar="MHZ", help="Clock of every variant; else estimated.")
    ] = None,
    memory: Annotated[str | None, MEMORY] = None,
    host_rates: HostRatesOf = MEASURED,
    seed: Annotated[int, typer.Option(min=0, help="Of the search.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help=f"Processes that compile; {_WORKERS} without --pool.")
    ] = None,
    pool: PoolAddress = None,
    tls: PoolCertificates = None,
    verify: Annotated[
        int,
        typer.Option(
            metavar="K", min=0, help="Simulate, synthesize and route so many points of the front."
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Search variants that run MODELS fastest in the least area, and the programs for them.

    Estimates of cycles, area and clock choose which variants are compiled and counted; these make
    the Pareto front. Control-C writes the front so far; the same command continues, to the same
    result. With --verify,
    exit status 1 where cycles of the RTL differ or a point does not fit the device.
    """
    from daedal.codesign.explore import explore
    from daedal.codesign.hardware.board import board_named
    from daedal.codesign.results.directory import SearchDirectory
    from daedal.codesign.results.verify import require_verification, spread
    from daedal.codesign.search.front_search import Goal
    from daedal.codesign.search.objectives import USABLE, parse_limits, parse_objectives
    from daedal.compiler.frontend.reader import read_model
    from daedal.isa.memory_file import load_memory
    from daedal.isa.variant import load_variant
    from daedal.reports.exploration import exploration_lines, exploration_table
    from daedal.reports.exploration_page import exploration_page, read_details
    from daedal.reports.verification import verification_lines, verification_table

    if (target is None) == (board is None):
        raise ExploreError("a search is for a device or a board: give one of --target and --board")
    known = None if board is None else board_named(board)
    device = target if known is None else known.target
    assert device is not None
    behind = load_memory(memory or ("ddr" if known is None else known.memory))
    goal = Goal(parse_objectives(objective), parse_limits(limit or ()), USABLE)
    if budget is None and evaluations is None:
        budget = 10.0
    if clock is not None and not 0 < clock < math.inf:
        raise ExploreError(f"a clock is a number above 0 MHz, not {clock:g}")
    if clock is not None and known is not None and clock > known.most_mhz:
        raise ExploreError(
            f"the memory of board {known.name!r} allows at most {known.most_mhz:.4g} MHz, not "
            f"{clock:g}; give a slower clock"
        )
    names = [path.stem for path in models]
    if len(set(names)) < len(names):
        raise ExploreError("networks need different file names, which name them in the results")
    networks = {
        path.stem: read_model(path).SerializeToString(deterministic=True) for path in models
    }
    if verify:
        require_verification(device.family)
    with (
        show_progress(make_console(stderr=True)) as report,
        _joined(pool, tls, workers, report) as joined,
    ):
        found = explore(
            networks,
            device,
            goal,
            output,
            minutes=budget,
            evaluations=evaluations,
            base=load_variant(base),
            mhz=clock,
            memory=behind,
            board=known,
            rates=_rates(host_rates, output),
            seed=seed,
            workers=workers or _WORKERS,
            pool=joined,
            report=report,
        )
        points = [SearchDirectory(output).point(item) for item in found.front]
        details = [read_details(point) for point in points]
        page = output / "index.html"
        write_atomically(page, exploration_page(found, goal, details, board=known))
        verified, stopped = _verified(
            [] if found.interrupted else spread(points, verify), known, report
        )
        if verified:
            write_atomically(page, exploration_page(found, goal, details, verified, known))
    if as_json:
        print_json(
            {
                "front": [item.to_json() for item in found.front],
                "counted": found.counted,
                "refused": found.refused,
                "estimated": found.estimated,
                "verified": [item.to_json() for item in verified],
            }
        )
    else:
        console = make_console()
        print_wide(console, exploration_table(found.front, goal))
        for line in exploration_lines(found, output, goal, host_rates):
            console.print(escape(line))
        if verified:
            print_wide(console, verification_table(verified))
            for line in verification_lines(verified, None if known is None else known.name):
                console.print(escape(line))
    if found.interrupted or stopped:
        raise typer.Exit(_INTERRUPTED)
    if not all(item.cycles_are_equal and not item.problem for item in verified):
        raise typer.Exit(1)


def _rates(source: str, output: Path) -> "HostRates":
    """The host's rates; where they are measured, those that the search in the folder began with."""
    from daedal.codesign.results.directory import SearchDirectory
    from daedal.host_rates import load_host_rates

    known = SearchDirectory(output).host_rates() if source == MEASURED else None
    return known or load_host_rates(source)


@contextmanager
def _joined(
    address: str | None, tls: Path | None, workers: int | None, report: Callable[[str], None]
) -> Iterator["Pool | None"]:
    """The pool at `address` until the end of the block; None where there is none."""
    if address is None:
        if tls is not None:
            raise ExploreError("--tls is for pools; give --pool, too")
        yield None
        return
    with needs_pool_packages():
        from daedal.tuning.pool import Pool
    report("joining the pool")
    with Pool(workers=workers or 0, address=address, tls=tls) as pool:
        yield pool


def _verified(
    points: Sequence["PointFolder"], board: "Board | None", report: Callable[[str], None]
) -> tuple[list["Verified"], bool]:
    """What was verified, and whether that was interrupted."""
    from daedal.codesign.results.verify import Tools, implemented_on, verify

    tools = Tools() if board is None else Tools(implement=partial(implemented_on, board))
    verified: list[Verified] = []
    try:
        for item in verify(points, report=report, tools=tools):
            verified.append(item)
    except KeyboardInterrupt:
        return verified, True
    return verified, False
