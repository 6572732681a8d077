"""Upstream VTA programs on our RTL: cycles and share of the multipliers' peak, beside VTA's own.

    python bench/correctness/vta_programs.py ../shared/vta-streams [--case NAME ...] [--json F]

Each case is a folder as `daedal.isa.vta.dump` reads it. Exit status 1 when one leaves other bytes
than its dump says. The share is products / cycles; products are what the stream multiplies.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.left_out import LeftOut
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.isa.vta.dump import VtaProgram
from daedal.isa.vta.translate import translate
from daedal.runtime.driver import LoadedProgram
from daedal.sim.rtl.device import RtlDevice

# Share of peak that VTA reached with tuned schedules, by ResNet-18 layer.
# Source: the project's yardsticks (ResNet-18 convolutions, "VTA on PYNQ, tuned").
PYNQ_SHARES = {
    "C2": 0.792, "C3": 0.761, "C4": 0.186, "C5": 0.871, "C6": 0.846,
    "C7": 0.244, "C8": 0.915, "C9": 0.565, "C10": 0.232, "C11": 0.615,
}  # fmt: skip


def measure(folder: Path, device: RtlDevice) -> dict[str, Any]:
    """Translate, verify and run one case."""
    program = VtaProgram.from_folder(folder)
    translation = translate(program, device.variant)
    report = verify(translation.program)
    loaded = LoadedProgram.place(translation.program, device)
    bases = range(len(loaded.bases))
    for base in bases[1:]:
        loaded.write_region(base, translation.region(base))
    profile = device.launch(translation.program, loaded.bases)
    bad = translation.mismatches([loaded.read_region(base) for base in bases])
    products = profile.units[Unit.GEMM].work
    cycles = profile.cycles or 0
    layer = folder.name.removeprefix("resnet18_").split(".")[0]
    tuned = folder.name.startswith("resnet18_") and folder.name.endswith(".tophub")
    return {
        "case": folder.name,
        "vta_instructions": len(program.instructions),
        "instructions": report.instructions,
        "tokens": report.tokens,
        "products": products,
        "cycles": cycles,
        "share": products / cycles if cycles else 0.0,
        "vta_share": PYNQ_SHARES.get(layer) if tuned else None,
        "mismatches": bad,
    }


def main() -> int:
    """Print the table; 0 where every case left its bytes, and there was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--case", action="append", help="only cases whose name contains this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folders = [
        path.parent
        for path in sorted(options.folder.glob("*/insn.bin"))
        if not options.case or any(part in path.parent.name for part in options.case)
    ]
    variant, left_out = load_variant("vta"), LeftOut()
    if not folders:
        left_out.add("every program", f"needs a folder with insn.bin in {options.folder}")
    rows = []
    names = ("VTA", "ours", "tokens", "cycles", "share", "VTA")
    widths = (6, 6, 6, 9, 7, 7)
    heads = [f"{name:>{width}}" for name, width in zip(names, widths, strict=True)]
    print(f"{'case':26}", *heads, " ok")
    for folder in folders:
        row = measure(folder, RtlDevice(variant))
        rows.append(row)
        theirs = f"{row['vta_share']:7.1%}" if row["vta_share"] else "      -"
        print(
            f"{row['case']:26} {row['vta_instructions']:6} {row['instructions']:6} "
            f"{row['tokens']:6} {row['cycles']:9} {row['share']:7.1%} {theirs}  "
            f"{'no: ' + ', '.join(row['mismatches']) if row['mismatches'] else 'yes'}",
            flush=True,
        )
    write_json(options.json, rows)
    left_out.show(print)
    return int(bool(left_out) or any(row["mismatches"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
