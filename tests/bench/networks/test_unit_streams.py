"""The instruction streams of the benches are valid programs on every variant that they measure."""

import pytest

from bench.correctness.timing_model import VARIANTS
from bench.networks.unit_streams import unit_streams
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify


@pytest.mark.parametrize("variant", VARIANTS)
def test_streams_are_valid(variant: str) -> None:
    """Tokens balance, and rows and bytes stay within scratchpads and regions.

    The streams measure cycles: what they compute with is the zeros of a new machine.
    """
    for stream in unit_streams(load_variant(variant)):
        verify(stream.program, zeroed=True)
