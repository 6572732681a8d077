"""Values of a variant's file in messages."""

import pytest

from daedal.isa.variant_section import shown


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("v" * 200, "'" + "v" * 79),
        (12, "12"),
        (1 << 70, "a number of more than 64 bits"),
        ([1], "a list"),
        ({}, "a table"),
    ],
)
def test_values_are_short(value: object, wanted: str) -> None:
    assert shown(value) == wanted
