"""Tables on terminals: one that is too wide becomes several, and no number is cut."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from daedal.reports.console import print_tables
from daedal.reports.tables import plain_table


def a_table() -> Table:
    table = plain_table("Layers", ("layer", "why", "cycles", "", "bytes moved"), 2)
    table.columns[3].justify = "left"
    why = "its weights are loaded twice, as WGT is small"
    table.add_row("conv0", why, "123,456", "█", "7,654")
    table.add_section()
    table.add_row("all", "", "1,123,456", "██", "17,654")
    table.caption = "a note"
    return table


def printed(width: int, *, is_terminal: bool = True) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=is_terminal, color_system=None)
    print_tables(console, a_table())
    return file.getvalue().splitlines()


def test_a_table_with_room_is_printed_whole() -> None:
    assert printed(100) == printed(80, is_terminal=False)
    assert printed(100) == [
        "Layers",
        "",
        " layer  why                                               cycles      bytes moved",
        f" {'─' * 81}",
        " conv0  its weights are loaded twice, as WGT is small    123,456  █         7,654",
        "",
        " all                                                   1,123,456  ██       17,654",
        "",
        "a note",
    ]


def test_bars_are_left_out_first_then_texts_are_cut() -> None:
    assert printed(65) == [
        "Layers",
        "",
        " layer  why                                 cycles  bytes moved",
        f" {'─' * 63}",
        " conv0  its weights are loaded twice, …    123,456        7,654",
        "",
        " all                                     1,123,456       17,654",
        "",
        "a note",
    ]


def test_columns_without_room_are_a_table_below() -> None:
    lines = printed(45)
    assert lines == [
        "Layers",
        "",
        " layer  why                          cycles",
        f" {'─' * 43}",
        " conv0  its weights are loaded …    123,456",
        "",
        " all                              1,123,456",
        "",
        " layer  bytes moved",
        f" {'─' * 19}",
        " conv0        7,654",
        "",
        " all         17,654",
        "",
        "a note",
    ]


@pytest.mark.parametrize("width", range(10, 100, 3))
def test_no_width_cuts_a_number_or_leaves_spaces_at_an_end(width: int) -> None:
    lines = printed(width)
    text = "\n".join(lines)
    if width >= 22:
        for number in ("123,456", "1,123,456", "7,654", "17,654"):
            assert number in text
    assert all(line == line.rstrip() for line in lines)
