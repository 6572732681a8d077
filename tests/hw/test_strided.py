"""StridedRequests against three loops."""

import numpy as np
import pytest

from daedal.hw.layouts import word_address_bits
from daedal.hw.strided import StridedRequests
from daedal.isa.variant import load_variant
from tests.hw.stream_bench import Bench, sink, source

TINY = load_variant("tiny")


def expand(transfer: dict[str, int]) -> list[dict]:
    space = 1 << word_address_bits(TINY)
    requests = [
        {
            "request": {
                "address": (
                    transfer["address"]
                    + block * transfer["block_stride"]
                    + row * transfer["row_stride"]
                )
                % space,
                "beats": transfer["beats"],
            },
            "last": 0,
        }
        for block in range(transfer["blocks"])
        for row in range(transfer["rows"])
    ]
    requests[-1]["last"] = 1
    return requests


@pytest.mark.parametrize("gap", [0.0, 0.4])
def test_rows_are_asked_for_in_order(gap: float, rng: np.random.Generator) -> None:
    """One request per cycle, also from one transfer to the next; addresses wrap."""
    transfers = [
        {
            "address": int(rng.integers(0, 1 << word_address_bits(TINY))),
            "beats": int(rng.integers(1, 1000)),
            "blocks": int(rng.integers(1, 5)),
            "rows": int(rng.integers(1, 5)),
            "row_stride": int(rng.integers(0, 1 << 24)),
            "block_stride": int(rng.integers(0, 1 << 24)),
        }
        for _ in range(40)
    ]
    for transfer in transfers:
        transfer |= {"one_row": transfer["rows"] == 1, "one_block": transfer["blocks"] == 1}
    wanted = [request for transfer in transfers for request in expand(transfer)]
    dut = StridedRequests(variant=TINY)
    bench, got = Bench(dut), []
    bench.foreground(source(dut.i, transfers, rng, gap))
    bench.background(sink(dut.o, got, rng, gap))
    bench.until(lambda: len(got) >= len(wanted))
    cycles = bench.run()
    assert got == wanted
    if gap == 0:
        assert cycles <= len(wanted) + 3, "a gap between requests"
