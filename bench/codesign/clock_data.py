"""The clocks that variants reach: the table that `daedal.codesign.hardware.clock` learns from.

    python bench/codesign/clock_data.py [--count N] [--most LUT] [--seeds K]
        [--variant NAME_OR_FILE]
    python bench/codesign/clock_data.py --check

Synthesizes variants and routes each out of context with K seeds: those given by `--variant`, and
the first N drawn ones (`bench/codesign/area_data.py --whole`) of at most `--most` LUTs that are not
in the table. A row is written after every seed, with a hash of the variant's Verilog and the
modules at the ends of the worst path; an interrupted run goes on. ECP5 only: there is no open place
and route for other families. `--check` emits the Verilog of every row again and marks rows whose
Verilog has changed as stale; `ClockModel` leaves them out. It exits with status 1 if there are any.
"""

import argparse
import dataclasses
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from amaranth.hdl import UnusedElaboratable

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.codesign.area_data import FOLDER, WHOLES, digest_of, drawn, emitted
from bench.synthesis.synth_record import TARGET_MHZ
from daedal.codesign.hardware.area import area_model
from daedal.common.files import write_atomically
from daedal.hw.emit import TOP_MODULE, emit_verilog
from daedal.hw.synth.families import Family
from daedal.hw.synth.flow import implement
from daedal.hw.synth.place import PlaceRequest
from daedal.hw.synth.tools import NEXTPNR
from daedal.isa.variant import Variant, load_variant
from daedal.native.caches.place import cache_folder

FAMILY = Family.ECP5
PATH = FOLDER / f"routes_{FAMILY.value}.json"
SECTIONS = ("array", "memory", "bus", "units")


class Routes:
    """The rows of the table; every change is written at once."""

    def __init__(self, path: Path = PATH) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []

    def variant(self, row: dict[str, Any]) -> Variant:
        """The variant of a row."""
        values = {key: value for part in row["variant"].values() for key, value in part.items()}
        return Variant("routed").replace(**values)

    def row_of(self, variant: Variant) -> dict[str, Any] | None:
        """The row of a variant, whatever its name."""
        for row in self.rows:
            if self.variant(row).fingerprint == variant.fingerprint:
                return row
        return None

    def route(self, variant: Variant, num_seeds: int) -> None:
        """Route seed after seed; the kept answers of `daedal synth` are found again."""
        verilog = emit_verilog(variant, FAMILY)
        mhz, worst = [], []
        for seed in range(1, num_seeds + 1):
            began = time.monotonic()
            made = implement(
                variant,
                verilog,
                FAMILY,
                cache_folder("synth"),
                requests=[PlaceRequest(target_mhz=TARGET_MHZ, seed=seed)],
            )
            if made.best is None:
                print(f"{variant.name} does not fit", flush=True)
                return
            mhz.append(round(made.best.slowest_mhz, 2))
            worst.append(" -> ".join(made.best.worst.modules))
            self._keep(
                variant,
                {
                    "variant": {
                        name: dataclasses.asdict(getattr(variant, name)) for name in SECTIONS
                    },
                    "resources": made.used,
                    "mhz": mhz,
                    "worst": worst,
                    "verilog": digest_of(emitted(variant, TOP_MODULE, FAMILY)),
                    "nextpnr": NEXTPNR.version,
                },
            )
            took = time.monotonic() - began
            print(f"{variant.name} seed {seed}: {mhz[-1]} MHz in {took:.0f} s", flush=True)

    def _keep(self, variant: Variant, row: dict[str, Any]) -> None:
        before = self.row_of(variant)
        if before is None:
            self.rows.append(row)
        else:
            self.rows[self.rows.index(before)] = row
        self.write()

    def write(self) -> None:
        """A line for each row."""
        lines = [json.dumps(row, separators=(",", ":")) for row in self.rows]
        write_atomically(self.path, "[\n" + ",\n".join(lines) + "\n]\n")

    def mark_stale(self) -> int:
        """Compare every row with today's Verilog; the number of stale ones."""
        count = 0
        for row in self.rows:
            row.pop("stale", None)
            if row["verilog"] != digest_of(emitted(self.variant(row), TOP_MODULE, FAMILY)):
                row["stale"] = True
                count += 1
        self.write()
        return count


def main() -> int:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=0, metavar="N")
    parser.add_argument("--most", type=float, default=40_000, metavar="LUT")
    parser.add_argument("--seeds", type=int, default=3, metavar="K")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME_OR_FILE")
    parser.add_argument("--check", action="store_true", help="mark what is stale")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnusedElaboratable)
    routes = Routes()
    if options.check:
        count = routes.mark_stale()
        print(f"{count} stale rows of {len(routes.rows)}")
        return int(count > 0)
    for name in options.variant:
        routes.route(load_variant(name), options.seeds)
    done = 0
    for number in WHOLES:
        if done == options.count:
            break
        variant = drawn(number, FAMILY)
        (used,) = area_model(FAMILY)([variant])
        row = routes.row_of(variant)
        if used["lut"] <= options.most and (row is None or len(row["mhz"]) < options.seeds):
            routes.route(variant, options.seeds)
            done += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
