"""StridedRequests against three loops."""

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from daedal.hw.bus.strided import StridedRequests
from daedal.hw.layouts import word_address_bits
from daedal.isa.variant import load_variant
from tests.hw.stream_bench import Bench, plain, sink, source

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
            "room": (1 << 32) - 1,
            "beats": int(rng.integers(1, 1000)),
            "blocks": int(rng.integers(1, 5)),
            "rows": int(rng.integers(1, 5)),
            "row_stride": int(rng.integers(0, 1 << 24)),
            "block_stride": int(rng.integers(0, 1 << 24)),
            "index": int(rng.integers(0, 1 << 24)),
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


def near_the_end(rng: np.random.Generator, index: int) -> dict[str, int]:
    """A transfer whose last row ends at the end of its region, before it or beyond."""
    blocks, rows = (int(rng.integers(1, 5)) for _ in range(2))
    row_stride, block_stride = (int(rng.choice([0, 1, 7, (1 << 24) - 1])) for _ in range(2))
    span = (rows - 1) * row_stride + (blocks - 1) * block_stride
    behind = int(rng.choice([0, 0, 0, 1, 50, -1, -1 - span // 2, -1 - span, -(1 << 32)]))
    return {
        "address": int(rng.integers(0, 1 << word_address_bits(TINY))),
        "room": span + behind,
        "beats": int(rng.integers(1, 100)),
        "blocks": blocks,
        "rows": rows,
        "one_row": rows == 1,
        "one_block": blocks == 1,
        "row_stride": row_stride,
        "block_stride": block_stride,
        "index": index,
    }


def rows_inside(transfer: dict[str, int]) -> int:
    """Rows before the first that is not inside the region, or all of them."""
    rooms = [
        transfer["room"] - block * transfer["block_stride"] - row * transfer["row_stride"]
        for block in range(transfer["blocks"])
        for row in range(transfer["rows"])
    ]
    return next((number for number, room in enumerate(rooms) if room < 0), len(rooms))


async def walk(ctx, dut, transfers: list[dict], rng: np.random.Generator, gap: float) -> list[dict]:
    """The requests for `transfers`, until 40 cycles pass without one."""
    left, got, quiet = list(transfers), [], 0
    while quiet < 40:
        ready = rng.random() >= gap
        ctx.set(dut.o.ready, ready)
        ctx.set(dut.i.valid, bool(left))
        if left:
            ctx.set(dut.i.payload, left[0])
        _, _, taken, valid, request, beyond = await ctx.tick().sample(
            dut.i.ready, dut.o.valid, dut.o.payload, dut.beyond
        )
        assert not (valid and beyond)
        left = left[1:] if taken else left
        got += [plain(request)] if valid and ready else []
        quiet = 0 if valid else quiet + 1
    return got


@pytest.mark.parametrize("gap", [0.0, 0.4])
def test_the_walk_stops_at_the_first_row_outside(gap: float, rng: np.random.Generator) -> None:
    """Nothing is asked for from there on, whatever comes next and wherever addresses wrap to."""
    dut, reset = StridedRequests(variant=TINY), Signal()
    stopped = []

    async def bench(ctx) -> None:
        for _ in range(40):
            transfers = [near_the_end(rng, index) for index in range(5)]
            wanted = []
            for transfer in transfers:
                inside = rows_inside(transfer)
                wanted += expand(transfer)[:inside]
                if inside < transfer["blocks"] * transfer["rows"]:
                    stopped.append(transfer["index"])
                    break
            got = await walk(ctx, dut, transfers, rng, gap)
            assert got == wanted
            assert ctx.get(dut.beyond) == (inside < transfer["blocks"] * transfer["rows"])
            if ctx.get(dut.beyond):
                assert ctx.get(dut.index) == transfer["index"]
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(set(stopped)) == 5, "in the first transfer, in the last, and between"
