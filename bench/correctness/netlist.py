"""The synthesized netlist of a variant runs programs.

    python bench/correctness/netlist.py [--variant NAME] [--programs N] [--seed S] [--images N]
                            [--memory PRESET] [--network MODEL.onnx ...] [--json F]

The netlist is the one that place and route gets, for an ECP5; its cells are the models of
`sim/rtl/netlist`, in which a block RAM gives random words where its ports collide. It runs random
programs with a memory that stalls at random (preset `jitter`), and the digits network. Memory must
be what the functional simulator leaves, and everything else what the RTL says: cycles, counters of
every unit, marks. With the SDRAM of a board as the memory (``--memory ulx3s``), its controller is a
netlist, too. Networks run with random inputs, and are compared with the cycle model instead of
the RTL. The first time, Yosys and the simulator's build take minutes; both are kept. Exit status 1
when anything differs.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.correctness.recorded_launches import recorded
from bench.correctness.rtl_launches import expected_memories, placed, rtl_device
from bench.synthesis.board_networks import compare, random_launch
from daedal.common.errors import UserError
from daedal.common.files import write_atomically
from daedal.isa.memory_model import MemoryModel, memory_model
from daedal.isa.random_programs import random_program
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.launch import Outcome
from daedal.sim.rtl.netlist.device import netlist_device
from examples.digits.data import demo_images

__all__ = ["main", "run_digits", "run_network", "run_programs"]

CHUNK = 50
"""Random programs between two lines of progress."""
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"

Record = dict[str, Any]


def main() -> int:
    """Run, print what came of it, and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--variant", default="ecp5", metavar="NAME")
    parser.add_argument("--programs", type=int, default=200, help="random programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first program; they count up")
    parser.add_argument("--images", type=int, default=16, help="images for the digits network")
    parser.add_argument("--memory", default="ddr", metavar="PRESET", help="behind the machine")
    parser.add_argument("--network", type=Path, action="append", default=[], metavar="MODEL.onnx")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        variant, memory = load_variant(options.variant), memory_model(options.memory)
        netlist = netlist_device(variant, timing=memory, report=show)
        rtl = rtl_device(variant, timing=memory, report=show)
        build_seconds = netlist.build().build_seconds
        seeds = range(options.seed, options.seed + options.programs)
        parts = {
            "programs": run_programs(variant, netlist, rtl, seeds, memory),
            "digits": run_digits(variant, netlist, rtl, options.images),
        }
        for path in options.network:
            parts[path.parent.name] = run_network(variant, netlist, path, memory)
    except UserError as error:
        show(f"bench/correctness/netlist.py: {error}")
        return 2
    for name, part in parts.items():
        print(line_of(variant, name, part))
    if options.json is not None:
        record = {
            "variant": variant.name,
            "fingerprint": variant.fingerprint,
            "memory": memory.name,
            "build_seconds": build_seconds,
            **parts,
        }
        write_atomically(options.json, json.dumps(record, indent=1) + "\n")
    return int(any(part["passed"] < part["count"] for part in parts.values()))


def run_programs(
    variant: Variant, netlist: RtlDevice, rtl: RtlDevice, seeds: Sequence[int], memory: MemoryModel
) -> Record:
    """Random programs, each on a machine that the one before has left.

    Without an SDRAM, memory stalls at random.
    """
    record: Record = {"count": len(seeds), "passed": 0, "mismatches": [], "cycles": 0, "seconds": 0}
    for start in range(0, len(seeds), CHUNK):
        chunk = seeds[start : start + CHUNK]
        launches = [
            placed(random_program(variant, seed), memory_model("jitter", seed))
            if memory.sdram is None
            else random_launch(variant, memory, seed)
            for seed in chunk
        ]
        outcomes = netlist.launch_each(launches)
        all_of = zip(
            chunk, outcomes, rtl.launch_each(launches), expected_memories(launches), strict=True
        )
        for seed, found, expected, after in all_of:
            wrong = difference(found, expected, after)
            if wrong:
                record["mismatches"].append(f"seed {seed}: {wrong}")
            else:
                record["passed"] += 1
            record["cycles"] += found.profile.cycles or 0
            record["seconds"] += found.profile.wall_seconds
        show(line_of(variant, "programs", record))
    return record


def difference(found: Outcome, expected: Outcome, memory: bytes) -> str:
    """What the netlist did otherwise than the RTL or the functional simulator, or nothing."""
    if found.memory != memory:
        pairs = enumerate(zip(found.memory, memory, strict=True))
        return f"memory differs from byte {next(i for i, (a, b) in pairs if a != b):#x} on"
    if found.profile.cycles != expected.profile.cycles:
        return f"{found.profile.cycles} cycles, and {expected.profile.cycles} on the RTL"
    same_clock = replace(found.profile, wall_seconds=expected.profile.wall_seconds)
    return "" if replace(found, profile=same_clock) == expected else "counters, marks or errors"


def run_digits(variant: Variant, netlist: RtlDevice, rtl: RtlDevice, count: int) -> Record:
    """The digits network, an image per launch: every tensor that it keeps, and the cycles."""
    artifact = daedal.compile(DIGITS, variant)
    images, labels = demo_images(count)
    ours, exact, reference = (
        daedal.simulate(artifact, {"input": images}, device=device)
        for device in (netlist, "functional", rtl)
    )
    wrong = [
        name
        for name, tensor in exact.tensors.items()
        if not np.array_equal(ours.tensors[name], tensor)
    ]
    cycles = [profile.cycles or 0 for profile in ours.profiles]
    differ = [
        number
        for number, profile in enumerate(reference.profiles)
        if profile.cycles != cycles[number]
    ]
    right = int((ours.outputs["probabilities"].argmax(axis=1) == labels).sum())
    return {
        "count": count,
        "passed": 0 if wrong else count - len(differ),
        "mismatches": [f"tensor {name}" for name in wrong]
        + [f"cycles of image {number}" for number in differ],
        "right": right,
        "cycles": sum(cycles),
        "seconds": sum(profile.wall_seconds for profile in ours.profiles),
    }


def run_network(variant: Variant, netlist: RtlDevice, path: Path, memory: MemoryModel) -> Record:
    """Any network: the bytes of memory after each launch, and the cycles."""
    items = recorded(daedal.compile(path, variant))
    launches = [replace(item.launch, timing=memory) for item in items]
    begin = time.monotonic()
    found = compare(netlist, launches, [item.after for item in items])
    right = not found.differences and not found.wrong_bytes and found.cycles == found.model_cycles
    return {
        "count": found.launches,
        "passed": found.launches if right else 0,
        "mismatches": [found.first] if found.first else [],
        "wrong_bytes": found.wrong_bytes,
        "bytes": found.num_bytes,
        "cycles": found.cycles,
        "seconds": time.monotonic() - begin,
    }


def line_of(variant: Variant, name: str, record: Record) -> str:
    """What came of a part, for people."""
    speed = record["cycles"] / record["seconds"] if record["seconds"] else 0
    right = f"{record['passed']} of {record['count']}"
    line = f"{variant.name}, netlist, {name}: {right} as on functional and RTL, "
    line += f"{record['cycles']:,} cycles at {speed:,.0f} per second"
    return "; ".join([line, *record["mismatches"][:3]])


def show(text: str) -> None:
    """Report progress beside the results."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
