"""What parts of machines take of an FPGA: the tables that `daedal.codesign` learns areas from.

    python bench/codesign/area_data.py [--family F] [--best N] [--numbers K,K] [--whole]
        [--most LUT]
    python bench/codesign/area_data.py [--family F] [--whole] --variant NAME_OR_FILE
    python bench/codesign/area_data.py [--family F] [--whole] --check

Variants are drawn by number from the space of `daedal explore`, those that the family's device may
hold; the draw of a number never changes. `--best N` synthesizes the N parts, each alone, that the
model knows least about for the time they take, and learns from each before it chooses the next.
With `--whole`, it synthesizes N machines as one design each, which shows what the sum of the parts
is off by: the first numbers that take at most `--most` LUTs. `--numbers` makes the parts, or the
whole, of these variants, `--variant` those of any other. Results go to the folder of tables,
``daedal/codesign/hardware/data/``, each with a hash of its Verilog; an interrupted run goes on.
`--check` emits the Verilog of every row again and marks those whose Verilog has changed as stale;
`AreaModel` leaves them out. It exits with status 1 if there are any.
"""

import argparse
import dataclasses
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amaranth.hdl import UnusedElaboratable

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from daedal.codesign.hardware.area import LEARNED, AreaModel, PartModel, area_model, read_rows
from daedal.codesign.hardware.parts import Geometry, built_parts, sizes_of
from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.common.files import write_atomically
from daedal.hw.emit import TOP_MODULE, emit_component, emit_verilog
from daedal.hw.machine import machine_parts
from daedal.hw.synth.cache import AreaCache, yosys_version
from daedal.hw.synth.families import DEVICES, RESOURCES, Family
from daedal.isa.variant import MultiplierStyle, Variant, load_variant
from daedal.native.caches.place import cache_folder

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "daedal" / "codesign" / "hardware" / "data"
BYTES_OF_BLOCK = {Family.ECP5: 2048, Family.XC7: 4096, Family.XCUP: 4096}
CANDIDATES = range(100)
"""Numbers whose parts `--best` chooses from."""
WHOLES = range(100, 1_000)
"""Numbers of whole machines, other than those that parts are chosen from."""
OPTIONS = ("tables", "lane_reductions", "wide_requantize", "gemm_reads_out", "narrow_weights")
"""Parameters that machines of the tables leave out: their area is counted, not learned
(`parts.option_amounts`)."""
MOST = {"inp_bytes": 65_536, "out_bytes": 32_768, "par_bytes": 8_192}
"""Of parameters that have larger values in the space since variants were drawn: the draw of a
number stays."""
START_LUT = 1_000
"""Synthesis of an empty part takes as long as that of so many LUTs."""


def drawn(number: int, family: Family, seed: int = 2026, *, options: bool = False) -> Variant:
    """Variant `number` of a table: drawn until the device may hold it, by a rough count.

    `options` draws those, too: each variant has at least one.
    """
    chosen = {
        name: [value for value in values if name not in MOST or value <= MOST[name]]
        for name, values in DEFAULT_PARAMETERS.items()
        if options or name not in OPTIONS
    }
    if number % 5 != 4:  # one image at a time is what most searches end with
        chosen["batch"] = [1]
    space = VariantSpace(load_variant("ecp5"), chosen)
    rng = np.random.default_rng([seed, number])
    while True:
        variant = space.variant(space.draw(rng))
        if variant is None or not _may_fit(variant, family):
            continue
        if not options or has_options(variant):
            return variant.replace(name=f"{family.value}-{number}")


def has_options(variant: Variant) -> bool:
    """Whether a variant has parts that machines of the tables do not have."""
    sections = (variant.memory, variant.units)
    return any(getattr(section, name, 0) for section in sections for name in OPTIONS)


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


class Table:
    """The rows of a file; every change is written at once."""

    def __init__(self, kind: str, family: Family, folder: Path = FOLDER) -> None:
        self.family = family
        self.path = folder / f"{kind}_{family.value}.json"
        self.rows: dict[str, Any] = {}
        if self.path.is_file():
            self.rows = json.loads(self.path.read_text())
        self._areas = AreaCache(cache_folder("synth"))

    def variant(self, number: str) -> Variant:
        """The variant of a row."""
        sections = self.rows[number]["variant"].values()
        values = {key: value for section in sections for key, value in section.items()}
        return Variant(f"{self.family.value}-{number}").replace(None, **values)

    def add(self, number: int | str, variant: Variant, name: str) -> None:
        """Synthesize one part of a variant, or the whole one, unless the row is of this Verilog."""
        verilog = emitted(variant, name, self.family)
        row = self.rows.get(str(number), {})
        kept = row.get("parts", {})
        digest = digest_of(verilog)
        if kept.get(name, {}).get("verilog") == digest:
            return
        began = time.monotonic()
        report = self._areas.synthesize(verilog, self.family, top=name)
        used = {resource: getattr(report, resource) for resource in RESOURCES}
        kept[name] = {"verilog": digest, **used}
        if name == TOP_MODULE:
            kept[name]["parts"] = report.unit_resources
        sections = ("array", "memory", "bus", "units")
        self.rows[str(number)] = {
            "variant": {
                section: dataclasses.asdict(getattr(variant, section)) for section in sections
            },
            "yosys": yosys_version(),
            "parts": kept,
        }
        self.write()
        print(f"{number} {name}: {used} in {time.monotonic() - began:.0f} s", flush=True)

    def write(self) -> None:
        """Rows in the order of their numbers, a line each."""
        self.path.parent.mkdir(exist_ok=True)
        lines = [
            f"{json.dumps(key)}: {json.dumps(self.rows[key], separators=(',', ':'))}"
            for key in sorted(self.rows, key=lambda key: (not key.isdigit(), key.zfill(12)))
        ]
        write_atomically(self.path, "{\n" + ",\n".join(lines) + "\n}\n")

    def mark_stale(self) -> list[str]:
        """Compare every row with today's Verilog; the stale ones, as text."""
        found = []
        for number, row in self.rows.items():
            variant = self.variant(number)
            for name, used in row["parts"].items():
                used.pop("stale", None)
                if digest_of(emitted(variant, name, self.family)) != used["verilog"]:
                    used["stale"] = True
                    found.append(f"{number} {name}")
        self.write()
        return found


def digest_of(verilog: str) -> str:
    """What a row has of its Verilog."""
    return hashlib.sha256(verilog.encode()).hexdigest()[:16]


def emitted(variant: Variant, name: str, family: Family) -> str:
    """The Verilog of a part; of the whole machine without the line that names the variant."""
    if name == TOP_MODULE:
        return emit_verilog(variant, family).partition("\n")[2]
    return emit_component(machine_parts(variant)[name], name, name, family)


def least_known(table: Table, most_lut: float) -> tuple[int, str]:
    """The number and part that the model knows least about for the time it takes."""
    models: dict[str, PartModel] = {}
    if table.rows:
        models = dict(AreaModel.fit(table.family, read_rows("parts", table.family)).parts)
    best, chosen = -1.0, (0, "control")
    for number in CANDIDATES:
        variant = drawn(number, table.family)
        geometry = Geometry(variant)
        for name in built_parts(variant):
            if name in table.rows.get(str(number), {}).get("parts", {}):
                continue
            if name not in models:
                return number, name
            doubt, lut = 0.0, START_LUT
            for place, resource in enumerate(LEARNED):
                fit = models[name].fits[resource]
                sizes = np.array([sizes_of(name, geometry)[place]], np.float64)
                doubt += float(fit.doubt(sizes)[0]) * max(0.01, fit.deviation)
                lut += float(fit.predict(sizes)[0])
            if doubt / lut > best and lut <= most_lut:
                best, chosen = doubt / lut, (number, name)
    return chosen


def small_machines(table: Table, most_lut: float) -> Iterator[int]:
    """Numbers of whole machines that are not in the table, of at most so many LUTs."""
    for number in WHOLES:
        if str(number) not in table.rows:
            (used,) = area_model(table.family)([drawn(number, table.family)])
            if used["lut"] <= most_lut:
                yield number


def main() -> int:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--family", type=Family, default=Family.ECP5)
    parser.add_argument("--best", type=int, default=0, metavar="N")
    parser.add_argument("--numbers", default="", metavar="K,K")
    parser.add_argument("--variant", default="", metavar="NAME_OR_FILE")
    parser.add_argument("--whole", action="store_true", help="machines, not parts")
    parser.add_argument("--most", type=float, default=45_000, metavar="LUT")
    parser.add_argument("--check", action="store_true", help="mark what is stale")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnusedElaboratable)
    table = Table("wholes" if options.whole else "parts", options.family)
    if options.check:
        stale = table.mark_stale()
        print(f"{len(stale)} stale rows" + "".join(f"\n{item}" for item in stale))
        return int(bool(stale))
    for number in [int(number) for number in options.numbers.split(",") if number]:
        variant = drawn(number, options.family)
        for name in [TOP_MODULE] if options.whole else built_parts(variant):
            table.add(number, variant, name)
    if options.variant:
        variant = load_variant(options.variant)
        for name in [TOP_MODULE] if options.whole else built_parts(variant):
            table.add(variant.fingerprint[:12], variant, name)
    machines = small_machines(table, options.most)
    for _ in range(options.best):
        number, name = (
            (next(machines, None), TOP_MODULE)
            if options.whole
            else least_known(table, options.most)
        )
        if number is None:
            print(f"no machine of at most {options.most:,.0f} LUTs is left to synthesize")
            return 2
        table.add(number, drawn(number, options.family), name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
