"""Upstream VTA programs for tests: the cases in ../shared, and running translations on a device."""

import json
from pathlib import Path

from daedal.isa.protocols import Device
from daedal.isa.vta.dump import VtaProgram
from daedal.isa.vta.stream import VtaQueue
from daedal.isa.vta.translate import Translation
from daedal.runtime.driver import LoadedProgram

__all__ = ["case_names", "load_case", "run_translation"]

_CASES = Path(__file__).resolve().parent.parent.parent.parent / "shared" / "vta-streams"


def case_names() -> list[str]:
    """Names of the cases beside the repository; one that does not exist where there are none."""
    return sorted(path.parent.name for path in _CASES.glob("*/insn.bin")) or ["absent"]


def load_case(folder: Path) -> VtaProgram:
    """A case, with the tokens that the run before it left."""
    tokens = json.loads((folder / "desc.json").read_text())["initial_tokens"]
    pairs = {}
    for name, count in tokens.items():
        giver, taker = (VtaQueue[unit.upper()] for unit in name.split("_to_"))
        pairs[giver, taker] = count
    return VtaProgram.from_folder(folder, pairs)


def run_translation(translation: Translation, device: Device) -> list[str]:
    """Run on `device` and name the segments that are not as they should be afterwards."""
    loaded = LoadedProgram.place(translation.program, device)
    for base in range(1, len(loaded.bases)):
        loaded.write_region(base, translation.region(base))
    device.launch(translation.program, loaded.bases)
    return translation.mismatches([loaded.read_region(base) for base in range(len(loaded.bases))])
