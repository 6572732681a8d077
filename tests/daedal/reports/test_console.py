"""Progress in a file: one line for each step, however often it is told how far it is."""

import pytest

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


def test_long_lines_are_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print("word " * 100)
    assert len(capsys.readouterr().out.splitlines()) == 1
