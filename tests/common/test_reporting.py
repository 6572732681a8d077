"""Sentences about progress in Python's log."""

import logging

import pytest

from daedal.common.reporting import log


def test_a_sentence_is_shown_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Also with a percent sign, which a log takes for a place of an argument."""
    with caplog.at_level(logging.INFO, logger="daedal"):
        log("50 %s of it")
    assert [(item.name, item.getMessage()) for item in caplog.records] == [
        ("daedal", "50 %s of it")
    ]
