"""Variants side by side: counted cycles, shares that sum to one, and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.codesign.compare import compare
from daedal.codesign.cycles.counting import Network, count_network, count_networks
from daedal.codesign.cycles.energy import switched_energy
from daedal.codesign.hardware.area import area_model
from daedal.common.errors import ExploreError, UserError
from daedal.compiler.targets.crossings import DEFAULT_HOST, HostRates
from daedal.host.rates import DEFAULT
from daedal.hw.synth.families import Family
from daedal.isa.variant import load_variant
from daedal.reports.comparison import comparison_lines

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"


def test_variants_side_by_side() -> None:
    model = DIGITS.read_bytes()
    variants = [load_variant("tiny"), load_variant("ecp5").replace("plain", counters=False)]
    found = compare(variants, {"digits": model}, host=DEFAULT)
    assert [item.variant for item in found] == variants
    for item in found:
        network = item.networks["digits"]
        assert network.cycles == count_network(model, item.variant, "ddr")
        assert sum(network.bounds.values()) == pytest.approx(1)
        frames = item.frames("digits")
        assert frames is not None
        milliseconds = network.cycles / item.clock.mhz / 1e3 + network.host_ms
        assert network.host_ms > 0 and frames[0] == pytest.approx(1e3 / milliseconds)
        assert frames[1] < frames[0] < frames[2]
        assert item.fits
        counts = count_networks({"digits": Network(model)}, item.variant, "ddr")
        assert counts is not None and network.energy is not None
        parts = area_model(Family.ECP5).by_part(item.variant)
        energy = switched_energy(counts.work["digits"], network.cycles, parts, item.variant)
        assert network.energy == energy


@pytest.mark.heavy(5)
def test_variants_and_models_by_name() -> None:
    """What `daedal.compare` takes in other forms is the same; an unknown device is refused."""
    tiny = load_variant("tiny")
    (found,) = daedal.compare("tiny", DIGITS, host=DEFAULT)
    (expected,) = daedal.compare([tiny], {"digits_qdq": onnx.load(DIGITS)}, host=DEFAULT_HOST)
    assert found == expected
    assert repr(found).startswith("<ComparedVariant tiny: ") and len(repr(found)) < 100
    with pytest.raises(UserError, match="an FPGA must be one of xc7z020, xczu3eg, ecp5-85f"):
        daedal.compare("tiny", DIGITS, fpga="ecp5")
    with pytest.raises(ExploreError, match="give at least one"):
        daedal.compare("tiny", [])


def test_a_family_without_tables_is_refused() -> None:
    with pytest.raises(ExploreError, match="areas are known of family ecp5"):
        compare("tiny", DIGITS, fpga="xc7z020", host=DEFAULT)


def test_images_of_a_batch_are_counted() -> None:
    def model(batch: int) -> bytes:
        net = QdqModel()
        x = net.requantized(net.input("x", (batch, 8, 4, 4)), 0.05, 0)
        values = np.ones((8, 8, 1, 1), np.int8)
        y = net.requantized(net.op("Conv", x, net.weights(values, 0.01)), 0.05, 0)
        return net.model(y).SerializeToString()

    models = {"one": model(1), "four": model(4)}
    rates = HostRates(1e-3, 1e6, 1e6, 1e6)  # a host in no time
    found = compare([load_variant("tiny")], models, host=rates)
    one, four = (found[0].networks[name] for name in models)
    assert (one.items, four.items) == (1, 4)
    assert one.cycles is not None and four.cycles is not None
    first, second = found[0].frames("one"), found[0].frames("four")
    assert first is not None and second is not None
    assert second[0] / first[0] == pytest.approx(4 * one.cycles / four.cycles, rel=1e-3)
    assert one.energy is not None and four.energy is not None
    assert four.energy.total < 1.5 * one.energy.total, "of one image"
    assert any("a run of four takes 4 images" in line for line in comparison_lines(found))
