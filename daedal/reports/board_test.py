"""What ``daedal board-test`` found, for people and as plain data."""

import dataclasses
from typing import Any

from rich.console import Console
from rich.markup import escape

from daedal.board_test import BoardReport, NetworkReport

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
    if report.network is not None:
        _print_network(console, report.network)
    else:
        why = "memory comes first" if memory.faults else "no --model was given"
        console.print(f"network: not run, as {why}")


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
        console.print(
            f"network: {escape(network.model)} is right: {network.num_tensors} tensors equal those "
            f"of the functional simulator; cycles of each run: {cycles}"
        )
