"""What ``daedal board-test`` found, for people and as plain data."""

import dataclasses
from typing import Any

from rich.console import Console
from rich.markup import escape

from daedal.boards.checks import BoardReport, NetworkReport
from daedal.boards.programs import ProgramsReport

__all__ = ["board_test_json", "print_board_test"]


def board_test_json(report: BoardReport) -> dict[str, Any]:
    """What a test found, as plain data."""
    return {"passed": report.passed, **dataclasses.asdict(report)}


def print_board_test(console: Console, report: BoardReport) -> None:
    """One line for each thing that was tested, and one for each that is wrong."""
    console.print(
        f"board: variant {escape(report.variant)}, {report.memory_bytes // 1024:,} KiB of memory"
    )
    memory = report.memory
    verdict = "wrong" if memory.faults else "good"
    console.print(
        f"memory: {verdict}; {memory.num_bytes:,} bytes written and read in {memory.seconds:.1f} s"
    )
    for fault in memory.faults:
        console.print(f"  {escape(fault)}")
    programs = report.programs
    if programs is not None:
        _print_programs(console, programs)
    else:
        console.print("programs: not run, as memory comes first")
    if report.network is not None:
        _print_network(console, report.network)
    else:
        is_well = programs is not None and programs.passed
        why = "no --model was given" if is_well else "what is above comes first"
        console.print(f"network: not run, as {why}")


def _print_programs(console: Console, programs: ProgramsReport) -> None:
    if programs.failure:
        console.print(f"programs: failed after {programs.num_run}: {escape(programs.failure)}")
    elif programs.wrong:
        seeds = ", ".join(map(str, programs.wrong))
        console.print(
            f"programs: of {programs.num_run} random ones, {len(programs.wrong)} left other bytes "
            f"than in the functional simulator; their seeds: {seeds}"
        )
    else:
        console.print(
            f"programs: right; {programs.num_run} random ones left the bytes of the functional "
            "simulator in memory"
        )


def _print_network(console: Console, network: NetworkReport) -> None:
    if network.failure:
        console.print(f"network: {escape(network.model)} failed: {escape(network.failure)}")
        return
    cycles = ", ".join(f"{count:,}" for count in network.cycles)
    if network.wrong:
        names = ", ".join(network.wrong)
        console.print(
            f"network: {escape(network.model)} is wrong: of {network.num_tensors} tensors, "
            f"{len(network.wrong)} differ from the functional simulator: {escape(names)}"
        )
    else:
        one = network.num_tensors == 1
        tensors = "1 tensor equals that" if one else f"{network.num_tensors} tensors equal those"
        console.print(
            f"network: {escape(network.model)} is right: {tensors} of the functional simulator; "
            f"cycles of each run: {cycles}"
        )
