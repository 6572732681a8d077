"""Progress: one line for each step in a file, however often it is told how far it is; in place on
a terminal."""

import io

import pytest
from rich.console import Console

from daedal.reports.console import make_console, show_progress


def test_a_file_gets_one_line_per_step(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(make_console(stderr=True)) as report:
        for text in (
            "reading",
            "run: 1 of 2",
            "run: 2 of 2",
            "[brackets] stay",
            "run: 1 of 1",
            "one (pass 3), two (waits)",
            "one (pass 4), two (waits)",
        ):
            report(text)
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.splitlines() == [
        "reading",
        "run",
        "[brackets] stay",
        "run",
        "one, two (waits)",
    ]


def test_a_file_gets_the_estimated_rest_and_again_when_half_of_it_has_passed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_progress(make_console(stderr=True)) as report:
        for text in (
            "mapping (1 of 2)",
            "mapping (2 of 2, about 7 minutes left)",
            "mapping (2 of 2, about 6 minutes left)",
            "seed 1 routing (9 connections, about 9 minutes left); seed 2 placing (pass 3)",
            "seed 1 routing (8 connections, about 5 minutes left); seed 2 placing (pass 4)",
            "seed 1 routing (8 connections, about 4 minutes left); seed 2 placing (pass 5)",
            "seed 1 routing (1 connections, about a minute left); seed 2 placing (pass 6)",
            "seed 1 routing (0 connections left); seed 2 placing (pass 7)",
        ):
            report(text)
    assert capsys.readouterr().err.splitlines() == [
        "mapping",
        "mapping, about 7 minutes left",
        "seed 1 routing; seed 2 placing, about 9 minutes left",
        "seed 1 routing; seed 2 placing, about 4 minutes left",
        "seed 1 routing; seed 2 placing, about a minute left",
    ]


def test_a_terminal_shows_how_long_a_step_has_taken() -> None:
    seconds = 1.0
    shown = io.StringIO()
    with show_progress(
        Console(file=shown, force_terminal=True, width=60), lambda: seconds
    ) as report:
        report("map [x] (1 of 9)")
        seconds = 75.0
        report("map [x] (2 of 9)")
    assert "map [x] (2 of 9) 1:14" in shown.getvalue()


def test_long_lines_are_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print("word " * 100)
    assert len(capsys.readouterr().out.splitlines()) == 1
