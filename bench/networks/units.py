"""Throughput of every unit on the RTL, against its bar.

    python bench/networks/units.py [--json F]

Variant `vta`, memory preset `ddr` unless said otherwise. Streams of instructions drive one unit,
or all, to the limit; whole networks show whether FETCH keeps up (`bench.networks.starvation`). Exit
status 1 when a bar is missed, or something was not run.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.left_out import LeftOut
from bench.networks.starvation import measure_starvation
from bench.networks.unit_streams import FIRST, LAST, UnitStream, unit_streams
from daedal.isa.memory_file import load_memory
from daedal.isa.profile import Profile
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.launch import Launch

__all__ = ["main", "measure", "run_streams", "stream_cycles"]


def stream_cycles(stream: UnitStream, profile: Profile) -> int:
    """Cycles of the measured window: between its marks, or of the whole run."""
    if stream.window is None:
        assert profile.cycles is not None
        return profile.cycles
    at = {mark.tag: mark.cycle for mark in profile.marks if mark.unit is stream.window}
    return at[LAST] - at[FIRST]


def run_streams(device: RtlDevice, streams: list[UnitStream], memory: str) -> list[int]:
    """Cycles of each stream's measured window; all run in one simulation."""
    launches = []
    for stream in streams:
        verify(stream.program, zeroed=True)
        bases, end = [], 0
        for size in stream.program.region_bytes:
            bases.append(end)
            end += -(-size // 4096) * 4096
        image = stream.program.constants.ljust(end, b"\0")
        launches.append(Launch(stream.program, bases, image, timing=load_memory(memory)))
    outcomes = device.launch_each(launches) if launches else []
    for outcome in outcomes:
        outcome.check()
    return [stream_cycles(s, outcome.profile) for s, outcome in zip(streams, outcomes, strict=True)]


def measure(
    variant_name: str, memory: str, only: str, report: Any, left_out: LeftOut
) -> list[dict[str, Any]]:
    """Run all streams in one simulator process, then the networks; one record each."""
    variant = load_variant(variant_name)
    device = RtlDevice(variant, timing=load_memory(memory), report=report)
    streams = [stream for stream in unit_streams(variant) if only in stream.name]
    records = []
    for stream, cycles in zip(streams, run_streams(device, streams, memory), strict=True):
        share = stream.ideal_cycles / cycles
        records.append(
            {
                "stream": stream.name,
                "ideal_cycles": stream.ideal_cycles,
                "cycles": cycles,
                "share": share,
                "bar": stream.bar,
                "passed": share >= stream.bar,
            }
        )
    return records + measure_starvation(device, only, left_out)


def main() -> int:
    """Measure, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--variant", default="vta")
    parser.add_argument("--memory", default="ddr")
    parser.add_argument("--only", default="", help="streams whose name contains this")
    arguments = parser.parse_args()
    progress = Console(stderr=True)
    left_out = LeftOut()
    records = measure(arguments.variant, arguments.memory, arguments.only, progress.print, left_out)
    table = Table(title=f"Units of {arguments.variant}, memory {arguments.memory}")
    for head in ("stream", "ideal", "cycles", "share", "bar", ""):
        table.add_column(head, justify="left" if head == "stream" else "right")
    for record in records:
        table.add_row(
            record["stream"],
            f"{record['ideal_cycles']:,}",
            f"{record['cycles']:,}",
            f"{100 * record['share']:.2f} %",
            f"{100 * record['bar']:.1f} %",
            "" if record["passed"] else "missed",
        )
    Console(width=110).print(table)
    left_out.show(print)
    document = {"units": records, "left_out": left_out.to_json()}
    write_json(arguments.json, document)
    return int(bool(left_out) or not all(record["passed"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
