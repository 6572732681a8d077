"""Lines of nextpnr's log, and what is told of them."""

import pytest

from daedal.hw.synth.pnr_progress import PnrProgress


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
    assert PnrProgress().phase_of(line) == phase


def test_the_rest_of_routing_is_estimated_once_a_tenth_is_done() -> None:
    log = PnrProgress()
    said = [
        log.phase_of(
            f"Info:      {left} |     6419      44580 |   98   902 | {left}|  6.79 {time}|"
        )
        for left, time in ((100_000, "10.00"), (95_000, "20"), (80_000, "70"), (20_000, "300.5"))
    ]
    assert said == [
        "routing (100,000 connections left)",
        "routing (95,000 connections left)",
        "routing (80,000 connections, about 4 minutes left)",
        "routing (20,000 connections, about 2 minutes left)",
    ]
    last = "Info:      99 |     6419      44580 |   98   902 |         0|     6.79    400.5|"
    assert log.phase_of(last) == "routing (0 connections left)"
