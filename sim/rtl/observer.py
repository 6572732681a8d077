"""Runs one launch on a machine that exposes its writes, and records them.

Input: a `Launch`. Output: its `RawResult`, and an `Observation`: every write into a scratchpad, the
start and end of every instruction, and every word written to memory, with their cycles. A Verilog
module next to the machine writes them to files as they happen, so Python need not run every cycle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ToolError
from daedal.common.reporting import log
from daedal.hw.issue.tokens import QUEUED_UNITS
from daedal.hw.observe import WritePort, observation_layout, write_ports
from daedal.isa.table import Unit
from daedal.isa.variant import Variant
from daedal.sim.rtl.build import COCOTB_SIMULATORS, build_simulator
from daedal.sim.rtl.job import RawResult, RunProgress
from daedal.sim.rtl.launch import Launch, launch_job
from daedal.sim.rtl.run import run_jobs
from daedal.sim.rtl.toolchain import require_tools
from daedal.sim.rtl.verilog import kept_verilog

__all__ = ["Events", "Observation", "observe_launch", "observer_verilog"]

Records = npt.NDArray[Any]

_LEAST_BYTES = 1 << 26  # one build then serves almost every program
_EVENT = np.dtype([("cycle", "<u4"), ("what", "<u4"), ("index", "<u4")])
_BURST = np.dtype([("cycle", "<u4"), ("address", "<u8"), ("length", "<u4"), ("id", "<u4")])


@dataclass(frozen=True)
class Events:
    """Cycles (n,) and instruction numbers (n,) of one kind of event of one unit, in time order."""

    cycles: npt.NDArray[np.int64]
    indexes: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Observation:
    """Recorded events of one launch. Cycles count from the start write.

    Attributes
    ----------
    issues, retires
        When each unit started and finished its instructions.
    writes
        By the name of a `hw.observe.WritePort`: records (cycle, row, column, data), one per write
        of a column.
    beats
        Words written to memory by STORE: records (cycle, address, strobe, data).
    """

    issues: dict[Unit, Events]
    retires: dict[Unit, Events]
    writes: dict[str, Records]
    beats: Records

    @classmethod
    def load(cls, variant: Variant, folder: Path) -> "Observation":
        """Read the files that `observer_verilog` wrote; large ones stay on disk."""
        events = _read(folder, "events", _EVENT)
        kinds: list[dict[Unit, Events]] = []
        for kind in range(2):
            found = {}
            for unit in QUEUED_UNITS:
                mine = events[events["what"] == 4 * kind + unit]
                found[unit] = Events(mine["cycle"].astype(np.int64), mine["index"].astype(np.int64))
            kinds.append(found)
        writes = {
            port.name: _read(folder, port.name, _write_record(port))
            for port in write_ports(variant)
        }
        return cls(kinds[0], kinds[1], writes, _beats(variant, folder))


def observe_launch(
    launch: Launch,
    *,
    cache_dir: Path,
    work_dir: Path,
    simulator: str = "verilator",
    assertions: bool = False,
    verilog: str | None = None,
    report: Callable[[str], None] | None = None,
    progress: Callable[[RunProgress], None] | None = None,
) -> tuple[RawResult, Observation]:
    """Run `launch`; the observation's files must stay in `work_dir` while it is used.

    With `assertions` the machine checks its contracts, and a broken one is a DeviceError. `verilog`
    substitutes another machine with the pin `observe`, for tests.

    Raises
    ------
    ToolError
        A tool is missing, or `simulator` cannot observe.
    DeviceError
        The simulator died.
    """
    if simulator not in COCOTB_SIMULATORS:  # the native one has no working folder for the files
        raise ToolError(
            f"simulator must be one of {', '.join(COCOTB_SIMULATORS)}, not {simulator!r}"
        )
    require_tools(simulator)
    variant = launch.program.variant
    report = report or log
    if verilog is None:
        verilog = kept_verilog(variant, cache_dir, report, observe=True, assertions=assertions)
    needed = max(launch.size_bytes, _LEAST_BYTES)
    built = build_simulator(
        verilog,
        data_bits=variant.bus.data_bits,
        addr_bits=variant.bus.address_bits,
        words=1 << (-(-needed // variant.bus_bytes) - 1).bit_length(),
        cache_dir=cache_dir,
        simulator=simulator,
        observer=observer_verilog(variant),
        progress=report,
    )
    (result,) = run_jobs(built, [launch_job(launch)], work_dir=work_dir, progress=progress)
    return result, Observation.load(variant, work_dir)


def observer_verilog(variant: Variant) -> str:
    """The module `daedal_observer`, which `hdl/harness.v` instantiates next to the machine."""
    layout = observation_layout(variant)
    data_bits, strobe_bits = variant.bus.data_bits, variant.bus_bytes
    blocks, files = [], ["events", "bursts", "words"]
    for port in write_ports(variant):
        files.append(port.name)
        blocks.append(_log_port(port, layout[port.name].offset))
    for kind, name in enumerate(("issue", "retire")):
        for unit in QUEUED_UNITS:
            width = layout[name].width // len(QUEUED_UNITS)
            at = layout[name].offset + unit * width
            fields = ("cycle", f"{4 * kind + unit}", f"observe[{at + 1}+:{width - 1}]")
            blocks.append(f"    if (observe[{at}]) begin\n{_log('events', fields)}    end\n")
    burst = ("cycle", "awaddr", "", "awlen", "awid")
    blocks.append(f"    if (awvalid && awready) begin\n{_log('bursts', burst)}    end\n")
    word = (
        "cycle",
        "wstrb",
        *[""] * (_words(strobe_bits) - 1),
        "wdata",
        *[""] * (_words(data_bits) - 1),
    )
    blocks.append(f"    if (wvalid && wready) begin\n{_log('words', word)}    end\n")
    record_bits = 32 * max(
        3 + max(_words(port.column_bits) for port in write_ports(variant)),
        len(burst),
        len(word),
    )
    opens = "".join(f'    file_{name} = $fopen("observe_{name}.bin", "wb");\n' for name in files)
    flushes = "".join(f"    $fflush(file_{name});\n" for name in files)
    return f"""\
module daedal_observer (
    input wire clk, rst_n, done,
    input wire [31:0] cycle,
    input wire [{layout.size - 1}:0] observe,
    input wire awvalid, awready, wvalid, wready,
    input wire [7:0] awid, awlen,
    input wire [63:0] awaddr,
    input wire [{strobe_bits - 1}:0] wstrb,
    input wire [{data_bits - 1}:0] wdata
);
  integer {", ".join(f"file_{name}" for name in files)}, k;
  reg [{record_bits - 1}:0] record;
  initial begin
{opens}  end
  always @(done) begin
{flushes}  end
  always @(posedge clk) if (rst_n) begin
{"".join(blocks)}  end
endmodule
"""


def _words(bits: int) -> int:
    return -(-bits // 32)


def _log(file: str, fields: tuple[str, ...]) -> str:
    """Statement that logs 32-bit fields; an empty one is the upper part of the field before it."""
    lines, at = [], 0
    while at < len(fields):
        count = 1
        while at + count < len(fields) and not fields[at + count]:
            count += 1
        lines.append(f"      record[{32 * at}+:{32 * count}] = {fields[at]};\n")
        at += count
    lines.append(f'      $fwrite(file_{file}, "%u", record[{32 * len(fields) - 1}:0]);\n')
    return "".join(lines)


def _log_port(port: WritePort, offset: int) -> str:
    layout = port.layout
    enable = offset + layout["enable"].offset
    row, bits = offset + layout["row"].offset, port.column_bits
    row_bits = layout["row"].width // port.columns
    fields = (
        "cycle",
        f"observe[{row} + k * {row_bits} +: {row_bits}]",
        "k",
        f"observe[{offset + layout['data'].offset} + k * {bits} +: {bits}]",
        *[""] * (_words(bits) - 1),
    )
    return (
        f"    if (|observe[{enable}+:{port.columns}])\n"
        f"    for (k = 0; k < {port.columns}; k = k + 1) if (observe[{enable} + k]) begin\n"
        f"{_log(port.name, fields)}    end\n"
    )


def _write_record(port: WritePort) -> np.dtype:
    size = 4 * _words(port.column_bits)
    return np.dtype(
        [("cycle", "<u4"), ("row", "<u4"), ("column", "<u4"), ("data", np.uint8, (size,))]
    )


def _read(folder: Path, name: str, record: np.dtype) -> Records:
    path = folder / f"observe_{name}.bin"
    if path.stat().st_size < record.itemsize:
        return np.zeros(0, dtype=record)
    return np.memmap(path, dtype=record, mode="r")


def _beats(variant: Variant, folder: Path) -> Records:
    """Words of memory by STORE, from AW and W: words follow in the order of the bursts (AXI4)."""
    size = variant.bus_bytes
    word = np.dtype(
        [
            ("cycle", "<u4"),
            ("strobe", np.uint8, (4 * _words(size),)),
            ("data", np.uint8, (4 * _words(8 * size),)),
        ]
    )
    bursts, words = _read(folder, "bursts", _BURST), _read(folder, "words", word)
    lengths = bursts["length"].astype(np.int64) + 1
    starts = np.cumsum(lengths) - lengths
    place = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    addresses = np.repeat(bursts["address"].astype(np.int64), lengths) + place * size
    ids = np.repeat(bursts["id"], lengths)
    count = min(len(words), len(addresses))  # a stopped run may have more of one than of the other
    beats = np.zeros(
        count,
        dtype=[
            ("cycle", np.int64),
            ("address", np.int64),
            ("strobe", np.bool_, (size,)),
            ("data", np.uint8, (size,)),
        ],
    )
    beats["cycle"], beats["address"] = words["cycle"][:count], addresses[:count]
    strobes = np.unpackbits(words["strobe"][:count], axis=1, bitorder="little")
    beats["strobe"], beats["data"] = strobes[:, :size], words["data"][:count, :size]
    return beats[ids[:count] == _STORE_ID]


_STORE_ID = 0
"""AXI ID of STORE's bursts (`hw.machine`); mark records use the other one."""
