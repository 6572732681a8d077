"""`bench/transformers.py`: what counts as passed."""

from dataclasses import replace

from bench.transformer_decode import DecodeRow
from bench.transformers import ActivationRow
from daedal.check import OperatorDifference

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
    launches=1,
    share_of_macs=1.0,
    cycles=64_000,
    rtl_cycles=(64_000, 64_000),
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
        ({"cycles": 64_001, "rtl_cycles": (64_001, 64_001)}, "64,000 cycles"),
        ({"rtl_cycles": (64_000, 64_001)}, "cycles of the RTL"),
        ({"rtl_differs": 1}, "bytes of the RTL"),
        ({"layers_wrong": 1}, "layers"),
        ({"layers_compared": 0}, "layers"),
        ({"perplexity": 2.11}, "perplexity"),
        ({"agreement": 0.90}, "same next token"),
    ):
        assert replace(DECODED, **change).missed == [bar]
