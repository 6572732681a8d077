"""What the options for modern networks take and give: tables, reductions over lanes, results of 16
bits, products with results on chip.

Output: records for `docs/synthesis.json`: `attention` without one option at a time, its area, and
how it runs the ViT of the shared test data, where that is present.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import daedal
from bench.codesign.area_alternatives import Alternative
from bench.kept import CYCLES, kept, sources_digest
from bench.left_out import LeftOut
from bench.networks.transformer_models import MODELS, Transformer, what_is_missing
from bench.synthesis.synth_cycles import COMPILED_BY, COUNTED_BY, PACKAGES
from bench.synthesis.synth_record import synthesis_record
from daedal.hw.synth_pages.ledger_cycles import OPTIONS_NETWORK
from daedal.isa.variant import Variant, load_variant

__all__ = ["ESTIMATED", "OPTIONS", "estimated_options"]

OPTIONS: dict[str, dict[str, int | bool]] = {
    "memory.tables": {"tables": 4},
    "units.lane_reductions": {"lane_reductions": True},
    "units.wide_requantize": {"wide_requantize": True},
    "units.gemm_reads_out": {"gemm_reads_out": True},
}
"""What each changes where it is chosen."""

ESTIMATED = ("attention", "xc7z020")
"""Which variant has them all, and for which device it is built."""

MODELS_FOLDER = Path(__file__).resolve().parents[3] / "shared" / "models"

Record = dict[str, Any]
Report = Callable[[Variant, str, str], Callable[[str], None]]
"""Progress of a variant on a device, with a label."""


def without(*names: str) -> dict[str, int | bool]:
    """The changes to a variant that take these options away."""
    changes = [OPTIONS[name] for name in names]
    return {key: type(value)(0) for change in changes for key, value in change.items()}


def estimated_options(report: Report, left_out: LeftOut) -> list[Record]:
    """A row for the variant, one without each option, and one without any."""
    name, target = ESTIMATED
    alternatives = [
        Alternative("as shipped"),
        *(Alternative(f"without `{option}`", without(option)) for option in OPTIONS),
        Alternative("without all of them", without(*OPTIONS)),
    ]
    network = MODELS[OPTIONS_NETWORK](MODELS_FOLDER)
    if network is None:
        left_out.add(OPTIONS_NETWORK, what_is_missing(OPTIONS_NETWORK, MODELS_FOLDER))
    rows = []
    for alternative in alternatives:
        variant = alternative.of(load_variant(name))
        tell = report(variant, target, alternative.label)
        made = synthesis_record(variant, target, (), tell)
        rows.append({"label": alternative.label, "changes": dict(alternative.changes), **made})
        if network is not None:
            rows[-1][OPTIONS_NETWORK] = network_run(network, variant, tell)
    return rows


def network_run(network: Transformer, variant: Variant, tell: Callable[[str], None]) -> Record:
    """``launches``, ``cycles`` of all of them by the cycle model, and the share of the network's
    multiplications that they do, ``macs``."""

    def run() -> Record:
        tell(f"{network.name} on the cycle model")
        artifact = daedal.compile(network.quantized, variant)
        feeds = {name: value[:1] for name, value in network.inputs.items()}
        profiles = daedal.simulate(artifact, feeds, device="timing").profiles
        macs = Counter[str]()
        for item in artifact.placements:
            macs[item.where] += item.macs or 0
        return {
            "launches": len(artifact.launches),
            "macs": round(macs["accelerator"] / macs.total(), 4),
            "cycles": sum(profile.cycles or 0 for profile in profiles),
        }

    sources = sources_digest(COMPILED_BY + COUNTED_BY, PACKAGES)
    model = hashlib.sha256(network.quantized).hexdigest()
    parts = [variant.fingerprint, model, sources]
    return kept(CYCLES, f"{variant.name}-vit", parts, run)
