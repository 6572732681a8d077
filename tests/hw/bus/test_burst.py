"""BurstSplitter against the rules of AXI4 and of the machine."""

import numpy as np
import pytest

from daedal.hw.bus.burst import BurstSplitter
from daedal.isa.variant import Variant, load_variant
from tests.hw.stream_bench import Bench, sink, source

VTA = load_variant("vta")
VARIANTS = {
    "64 bits": VTA,
    "512 bits": VTA.replace("bits512", data_bits=512, block_in=64, block_out=64, acc_bytes=131072),
}


def split(variant: Variant, address: int, beats: int) -> list[dict[str, int]]:
    """The longest bursts that the rules allow."""
    page = 4096 // variant.bus_bytes
    bursts = []
    while beats:
        length = min(32, beats, page - address % page)
        bursts.append({"address": address, "beats": length, "last": int(length == beats)})
        address, beats = address + length, beats - length
    return bursts


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("gap", [0.0, 0.4])
def test_bursts_are_as_long_as_they_may_be(
    variant: Variant, gap: float, rng: np.random.Generator
) -> None:
    page = 4096 // variant.bus_bytes
    requests = [
        {"address": 7 * page - int(rng.integers(1, 70)), "beats": int(rng.integers(1, 140))}
        for _ in range(60)
    ] + [{"address": 0, "beats": 32}, {"address": page - 32, "beats": 33}]
    wanted = [burst for request in requests for burst in split(variant, **request)]
    dut = BurstSplitter(variant=variant)
    bench, got = Bench(dut), []
    bench.foreground(source(dut.i, requests, rng, gap))
    bench.background(sink(dut.o, got, rng, gap))
    bench.until(lambda: len(got) >= len(wanted))
    cycles = bench.run()
    assert got == wanted
    if gap == 0:
        assert cycles <= len(wanted) + 4, "a gap between bursts"
