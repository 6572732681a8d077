"""A variant on a device, as `docs/synthesis.json` keeps it.

Input: a variant, a device's name, seeds. Output: a record, from Yosys and nextpnr or from earlier
answers in the cache. `forms_of` says with which multipliers a variant may be measured on a device.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from daedal.common.errors import VariantError
from daedal.hw.synth.cache import yosys_version
from daedal.hw.synth.families import DEVICES, RESOURCES, Family, Target
from daedal.hw.synth.flow import PLACED, Implementation, implement
from daedal.hw.synth.place import PlaceRequest
from daedal.hw.synth.tools import NEXTPNR
from daedal.isa.variant import MultiplierStyle, Variant
from daedal.native.caches.place import cache_folder
from daedal.sim.rtl.device import default_cache_dir
from daedal.sim.rtl.verilog import kept_verilog

__all__ = [
    "TARGET_MHZ",
    "forms_of",
    "overfull",
    "record_of",
    "synthesis_record",
    "text_digest",
]

TARGET_MHZ = 150.0
"""What the placer aims at, as `daedal synth` does: more than a machine reaches there."""


def forms_of(variant: Variant, target: str) -> list[Variant]:
    """The forms in which a variant is measured on a device; they keep its name.

    Where it is routed, with multipliers packed, where products are too wide for that as it is, and
    in logic, which has the most cells and wires. Elsewhere as it is.
    """
    if Target(target).family not in PLACED:
        return [variant]
    in_logic = variant.replace(None, multiplier_style=MultiplierStyle.LUT.value)
    try:
        packed = variant.replace(None, multiplier_style=MultiplierStyle.PACKED.value)
    except VariantError:
        packed = variant
    return [packed, in_logic]


def synthesis_record(
    form: Variant, target: str, seeds: Sequence[int], report: Callable[[str], None]
) -> dict[str, Any]:
    """One form on one device: mapped, and routed once for each of `seeds` where it can be.

    Raises ToolError where a tool is missing, or gives up.
    """
    family = Target(target).family
    placed = family in PLACED
    verilog = kept_verilog(form, default_cache_dir(), report, family=family)
    made = implement(
        form,
        verilog,
        family,
        cache_folder("synth"),
        requests=[PlaceRequest(target_mhz=TARGET_MHZ, seed=seed) for seed in seeds if placed],
        num_processes=os.cpu_count() or 1,
        progress=report,
    )
    return {"target": target, "verilog": text_digest(verilog), **record_of(made)}


def text_digest(verilog: str) -> str:
    """What a record keeps of the Verilog that was measured."""
    return hashlib.sha256(verilog.encode()).hexdigest()[:16]


def overfull(record: Mapping[str, Any]) -> set[str]:
    """The resources of which a record's form takes more than there are."""
    device = DEVICES[Family(record["family"])]
    return {name for name in RESOURCES if record["used"][name] > getattr(device, name)}


def record_of(made: Implementation) -> dict[str, Any]:
    """What the file has of an implementation: `cells` are Yosys' counts, `used` the resources."""
    record = {
        "variant": made.variant.name,
        "multipliers": made.variant.array.multiplier_style,
        "fingerprint": made.variant.fingerprint,
        "device": DEVICES[made.report.family].name,
        "family": made.report.family.value,
        "yosys": yosys_version(),
        "cells": made.report.cells,
        "used": made.used,
        "limit": made.limit,
        "overflow": made.overflow,
        "shortfalls": [{**asdict(item), "sentence": item.sentence} for item in made.shortfalls],
    }
    if made.best is None:
        return record
    return record | {
        "nextpnr": NEXTPNR.version,
        "target_mhz": made.best.request.target_mhz,
        "fmax_mhz": round(made.best.slowest_mhz, 2),
        "worst_path": made.best.worst.sentence,
        "seeds": {str(item.request.seed): round(item.slowest_mhz, 2) for item in made.routes},
        "given_up": list(made.given_up),
    }
