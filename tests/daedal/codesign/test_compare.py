"""Variants side by side: counted cycles, shares that sum to one, and what is refused."""

from pathlib import Path

import pytest

from daedal.codesign.compare import compare
from daedal.codesign.cycles.counting import Network, count_network, count_networks
from daedal.codesign.cycles.energy import switched_energy
from daedal.codesign.hardware.area import area_model
from daedal.hw.synth.families import Family
from daedal.isa.errors import ExploreError
from daedal.isa.variant import load_variant

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"


def test_variants_side_by_side() -> None:
    model = DIGITS.read_bytes()
    variants = [load_variant("tiny"), load_variant("ecp5").replace("plain", counters=False)]
    found = compare(variants, {"digits": model}, Family.ECP5)
    assert [item.variant for item in found] == variants
    for item in found:
        network = item.networks["digits"]
        assert network.cycles == count_network(model, item.variant, "ddr")
        assert sum(network.bounds.values()) == pytest.approx(1)
        frames = item.frames("digits")
        assert frames is not None
        assert frames[0] == pytest.approx(item.clock.mhz * 1e6 / network.cycles)
        assert frames[1] < frames[0] < frames[2]
        assert item.fits
        counts = count_networks({"digits": Network(model)}, item.variant, "ddr")
        assert counts is not None and network.energy is not None
        parts = area_model(Family.ECP5).by_part(item.variant)
        energy = switched_energy(counts.work["digits"], network.cycles, parts, item.variant)
        assert network.energy == energy


def test_a_family_without_tables_is_refused() -> None:
    with pytest.raises(ExploreError, match="areas are known of family ecp5"):
        compare([load_variant("tiny")], {}, Family.XC7)
