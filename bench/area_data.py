"""What parts of machines take of an FPGA: the tables that `daedal.codesign` learns areas from.

    python bench/area_data.py [--family ecp5] [--count N] [--from K] [--whole] [--check]

Draws variants by number from the space of `daedal explore`, those that the family's device may
hold, synthesizes each part of them alone, and writes its resources to ``daedal/codesign/data/``.
A part whose features (`daedal.codesign.parts`) an earlier variant had is left out. With `--whole`,
variants are
synthesized as one design, which shows what the sum of the parts is off by. The draw of a number
never changes. A row is kept with a hash of its Verilog: rows of other gateware than today's are
made again, and parts with equal Verilog are synthesized once. A run that is interrupted goes on.
`--check` says which rows are missing or stale and synthesizes nothing; exit status 1 when there are
some.
"""

import argparse
import dataclasses
import hashlib
import json
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import UnusedElaboratable

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from daedal.codesign.parts import built_parts, features_of, kind_of
from daedal.codesign.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.hw.emit import TOP_MODULE, emit_component, emit_verilog
from daedal.hw.machine import machine_parts
from daedal.hw.synth.cache import AreaCache, yosys_version
from daedal.hw.synth.families import DEVICES, RESOURCES, Family
from daedal.isa.files import write_atomically
from daedal.isa.variant import MultiplierStyle, Variant, load_variant
from daedal.sim.rtl.device import default_cache_dir

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "daedal" / "codesign" / "data"
LARGE = frozenset({"load", "gemm", "alu", "store", "inp", "wgt", "par", "out", "accumulators"})
SMALL_COUNT = 10
"""Of other parts, which differ little, so many are made."""
BYTES_OF_BLOCK = {Family.ECP5: 2048, Family.XC7: 4096, Family.XCUP: 4096}


def drawn(number: int, family: Family) -> Variant:
    """Variant `number` of the table: drawn until the device may hold it, by a rough count."""
    # One image at a time is what most searches end with.
    batches = DEFAULT_PARAMETERS["batch"] if number % 5 == 4 else (1,)
    space = VariantSpace(load_variant("ecp5"), {**DEFAULT_PARAMETERS, "batch": batches})
    rng = np.random.default_rng([2026, number])
    while True:
        variant = space.variant(space.draw(rng))
        if variant is not None and _may_fit(variant, family):
            return variant.replace(name=f"{family.value}-{number}")


def _may_fit(variant: Variant, family: Family) -> bool:
    memory, device, array = variant.memory, DEVICES[family], variant.array
    sizes = [
        getattr(memory, spec.name)
        for spec in dataclasses.fields(memory)
        if spec.name.endswith("_bytes")
    ]
    in_logic = array.style is MultiplierStyle.LUT
    multipliers = variant.macs_per_cycle // array.outputs_per_activation
    most = 128 if in_logic else device.dsp
    return (
        sum(sizes) <= 0.8 * device.block_ram * BYTES_OF_BLOCK[family]
        and variant.macs_per_cycle >= 16
        and multipliers <= most
        and variant.units.requantize_lanes * 4 <= 64
        and array.batch * array.block_out <= 64
    )


def parts_of(
    variant: Variant, family: Family, known: Counter[tuple[object, ...]]
) -> dict[str, str]:
    """The Verilog of the parts to synthesize: those unlike all of `known`, which grows."""
    made, found = machine_parts(variant), {}
    for name in built_parts(variant):
        key = (name, kind_of(name, variant), *features_of(name, variant))
        enough = name not in LARGE and known[name,] >= SMALL_COUNT
        if not known[key] and not enough:
            known.update([key, (name,)])
            found[name] = emit_component(made[name], name, name, family)
    return found


def whole_of(
    variant: Variant, family: Family, _known: Counter[tuple[object, ...]]
) -> dict[str, str]:
    """The Verilog of the whole machine, without the line that names the variant."""
    return {TOP_MODULE: emit_verilog(variant, family).partition("\n")[2]}


def main() -> int:
    """Make what is missing or stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--family", type=Family, default=Family.ECP5)
    parser.add_argument("--count", type=int, default=40, metavar="N")
    parser.add_argument("--from", type=int, default=0, metavar="K", dest="first")
    parser.add_argument("--whole", action="store_true", help="machines, not parts")
    parser.add_argument("--check", action="store_true", help="synthesize nothing")
    options = parser.parse_args()
    kind, texts_of = ("wholes", whole_of) if options.whole else ("parts", parts_of)
    path = FOLDER / f"{kind}_{options.family.value}.json"
    rows: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    warnings.simplefilter("ignore", UnusedElaboratable)  # parts that are known
    areas = AreaCache(default_cache_dir().parent / "synth")
    stale, known = 0, Counter[tuple[object, ...]]()
    for number in range(options.first, options.first + options.count):
        variant = drawn(number, options.family)
        texts = texts_of(variant, options.family, known)
        digests = {name: hashlib.sha256(t.encode()).hexdigest()[:16] for name, t in texts.items()}
        kept = rows.get(str(number), {}).get("parts", {})
        missing = [name for name in texts if kept.get(name, {}).get("verilog") != digests[name]]
        stale += len(missing)
        if options.check or not missing:
            if missing:
                print(f"{number}: {', '.join(missing)}")
            continue
        began = time.monotonic()
        for name in missing:
            report = areas.synthesize(texts[name], options.family, top=name)
            used = {resource: getattr(report, resource) for resource in RESOURCES}
            kept[name] = {"verilog": digests[name], **used}
            if options.whole:
                kept[name]["parts"] = report.unit_resources
        if not texts:
            continue
        rows[str(number)] = {
            "variant": {
                section: dataclasses.asdict(getattr(variant, section))
                for section in ("array", "memory", "bus", "units")
            },
            "yosys": yosys_version(),
            "parts": kept,
        }
        FOLDER.mkdir(exist_ok=True)
        lines = [
            f"{json.dumps(key)}: {json.dumps(rows[key], separators=(',', ':'))}"
            for key in sorted(rows, key=int)
        ]
        write_atomically(path, "{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{number}: {len(missing)} in {time.monotonic() - began:.0f} s", flush=True)
    return int(options.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
