"""Programs of upstream TVM and VTA reproduce their expected bytes on the RTL too."""

from pathlib import Path

import pytest

from bench.correctness.rtl_launches import rtl_device
from daedal.isa.latencies import PAGE_BYTES
from daedal.isa.registers import ErrorCode
from daedal.isa.variant import load_variant
from daedal.isa.vta.translate import Translation, translate
from daedal.sim.rtl.launch import Launch
from tests.support.vta import case_names, load_case

# Both build the RTL of `vta`.
pytestmark = [pytest.mark.rtl, pytest.mark.slow]

VARIANT = load_variant("vta")
# A megacycle of tiles of one row, and layers of half a megacycle each.
LONG = {"dense_128x128x128.tophub", "resnet18_C2.tophub", "resnet18_C8.tophub"}


def launch_of(translation: Translation) -> Launch:
    """The regions one after the other, filled."""
    memory = bytearray()
    bases = []
    for base in range(len(translation.program.region_bytes)):
        memory.extend(bytes(-len(memory) % PAGE_BYTES))
        bases.append(len(memory))
        memory += translation.region(base)
    return Launch(translation.program, tuple(bases), bytes(memory))


def check(folder: Path, names: list[str]) -> None:
    """Run cases in one simulator process; print what each took."""
    translations = [translate(load_case(folder / name), VARIANT) for name in names]
    launches = [launch_of(translation) for translation in translations]
    outcomes = rtl_device(VARIANT).launch_each(launches)
    for name, translation, launch, outcome in zip(
        names, translations, launches, outcomes, strict=True
    ):
        assert outcome.error is ErrorCode.NONE, name
        sizes = translation.program.region_bytes
        regions = [
            outcome.memory[base : base + size]
            for base, size in zip(launch.bases, sizes, strict=True)
        ]
        assert translation.mismatches(regions) == [], name
        print(f"{name:26} {outcome.profile.cycles:9} cycles")


def test_quick_cases(shared: Path) -> None:
    check(shared / "vta-streams", [name for name in case_names() if name not in LONG])


def test_long_cases(shared: Path) -> None:
    check(shared / "vta-streams", sorted(LONG))
