"""`bench/transformers.py`: what counts as passed."""

from dataclasses import replace

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
