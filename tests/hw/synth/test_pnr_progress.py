"""Lines of nextpnr's log, and what is told of them."""

import pytest

from daedal.hw.synth.pnr_progress import phase_of


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("Info: Packing carries...", "packing"),
        ("Info: Running Static placer...", "placing"),
        (
            "Info: iter=11 steplen=1.722328 a=276.401886 penalty=[17.50, 17.50, 17.50, 17.50]",
            "placing (pass 11)",
        ),
        ("Info:   at iteration #5: temp = 0.000000, timing cost = 100", "refining (pass 5)"),
        (
            "Info:      51000 |     6419      44580 |   98   902 |    124184|     6.79     80.45|",
            "routing (124,184 connections left)",
        ),
        ("Info:            |   (re-)routed arcs  |   delta    | remaining|       time", None),
        ("Info: Routing complete.", None),
        ("", None),
    ],
)
def test_phases(line: str, phase: str | None) -> None:
    assert phase_of(line) == phase
