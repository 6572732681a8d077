"""How near the counted cycles estimates with a memory come."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import Network, count_network
from daedal.codesign.search.evaluator import Evaluator
from daedal.codesign.search.variant_space import VariantSpace
from daedal.hw.synth.families import Family
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant

ROOT = Path(__file__).resolve().parents[4]
DIGITS = (ROOT / "examples" / "digits" / "digits_qdq.onnx").read_bytes()
BOARD = PRESETS["ulx3s"]
VARIANTS = ("tiny", "ecp5", "ecp5_half", "vta", "attention")
"""Those shipped whose bus an SDRAM has, for numbers of 8 bits."""


def errors(models: Mapping[str, bytes]) -> tuple[list[float], list[float]]:
    """Relative errors against counted cycles, without and with the memory's cost."""
    without, with_memory = [], []
    for name, model in models.items():
        before, after = AnalyticCycles(model), AnalyticCycles(model, memory=BOARD)
        for variant in map(load_variant, VARIANTS):
            counted = count_network(model, variant, BOARD)
            without.append(before(variant) / counted - 1)
            with_memory.append(after(variant) / counted - 1)
            print(f"{name} on {variant.name}: {without[-1]:+.1%} -> {with_memory[-1]:+.1%}")
    return without, with_memory


def mean_and_worst(found: list[float]) -> tuple[float, float]:
    return float(np.mean(np.abs(found))), float(np.max(np.abs(found)))


@pytest.mark.heavy(2)
def test_a_small_network() -> None:
    """Its layers take some hundred cycles each, so latencies count."""
    before, after = map(mean_and_worst, errors({"digits": DIGITS}))
    assert before[0] > 0.2
    assert after[0] < 0.07 and after[1] < 0.12


@pytest.mark.slow
def test_large_networks() -> None:
    """The figures of docs/codesign.md."""
    names = ("resnet18", "mobilenet_v1", "mobilenet_v2")
    models = {name: quantized(NETWORKS[name]) for name in names}
    before, after = map(mean_and_worst, errors(models))
    assert before[0] > 0.2
    assert after[0] < 0.025 and after[1] < 0.05


def test_a_slower_memory_has_no_smaller_estimate() -> None:
    variant = load_variant("ecp5")
    found = [AnalyticCycles(DIGITS, memory=PRESETS[name])(variant) for name in ("ddr", "slow")]
    assert found == sorted(found)


def test_the_search_asks_for_its_memory() -> None:
    space = VariantSpace.around(load_variant("tiny"))
    point = space.point(load_variant("tiny"))
    assert point is not None
    networks = {"digits": Network(DIGITS)}
    found = []
    for memory in (PRESETS["ddr"], BOARD):
        (item,) = Evaluator(space, networks, Family.ECP5, mhz=70.0, memory=memory).estimate([point])
        assert item is not None
        found.append(item.cycles["digits"])
    assert found[1] > 1.1 * found[0]
