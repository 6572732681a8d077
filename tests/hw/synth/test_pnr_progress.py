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
        ("Info: Running main analytical placer, max placement attempts per cell = 4.", "placing"),
        ("Info:     at iteration #1, type ALL: wirelen solved = 152750", "placing (pass 1)"),
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


def test_the_rest_of_placing_and_refining_is_estimated_from_their_usual_passes() -> None:
    times = iter([0.0, 10.0, 50.0, 250.0, 260.0, 300.0, 340.0, 400.0, 500.0])
    log = PnrProgress(times.__next__)
    placing = [
        log.phase_of(f"Info: iter={number} steplen=1.7") for number in (0, 20, 100, 400, 510)
    ]
    assert placing == [
        "placing (pass 0)",
        "placing (pass 20)",
        "placing (pass 100 of about 500, about 4 minutes left)",
        "placing (pass 400 of about 500, about 2 minutes left)",
        "placing (pass 510)",
    ]
    refining = [
        log.phase_of(f"Info:   at iteration #{number}: temp = 0.0") for number in (1, 5, 15, 21)
    ]
    assert refining == [
        "refining (pass 1)",
        "refining (pass 5 of about 20, about 3 minutes left)",
        "refining (pass 15 of about 20, about a minute left)",
        "refining (pass 21)",
    ]
