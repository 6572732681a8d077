"""The instruction queue and the block-RAM FIFO: no word lost, doubled, changed or overtaken."""

from pathlib import Path

import pytest

from daedal.hw.formal.prove import prove
from daedal.hw.formal.streams import FirstInFirstOut
from daedal.hw.parts import block_fifo, queue
from daedal.hw.parts.block_fifo import BlockFifo
from daedal.hw.parts.queue import Queue
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal


def queue_claims(block: object, depth: int) -> FirstInFirstOut:
    return FirstInFirstOut(block, capacity=depth + 1, room=depth, latency=2)


def block_fifo_claims(block: object, depth: int) -> FirstInFirstOut:
    return FirstInFirstOut(block, capacity=depth + 4, room=depth, latency=4)


@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_queue_is_proved(depth: int) -> None:
    result = prove(queue_claims(Queue(1, depth=depth), depth), depth=7, max_frames=40)
    assert result.proved, result


def test_block_fifo_holds() -> None:
    # Ten cycles fill it and pass every pointer's wrap; all lengths of run are beyond a test's time.
    result = prove(block_fifo_claims(BlockFifo(shape=1, depth=2), 2), depth=10)
    assert result.holds, result


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    first_quick(
        {
            "overwrites its output": ("take.eq(~self.o.valid | self.o.ready)", "take.eq(1)", None),
            "doubles a word": ("memory.r_en.eq(take)", "memory.r_en.eq(self.o.ready)", None),
            "drops a word": (
                "memory.w_en.eq(self.i.valid)",
                "memory.w_en.eq(self.i.valid & ~self.o.valid)",
                None,
            ),
            "empty too early": ("self.empty.eq(~self.o.valid & ~", "self.empty.eq(~", "empty"),
        }
    ),
)
def test_a_broken_queue_fails(right: str, wrong: str, claim: str | None, tmp_path: Path) -> None:
    copy = broken_copy(queue, right, wrong, tmp_path)
    result = prove(queue_claims(copy.Queue(1, depth=2), 2), depth=7)
    assert result.broken is not None
    assert claim in (None, result.broken[0]), result


@pytest.mark.parametrize(
    ("right", "wrong"),
    first_quick(
        {
            "too few credits": ("Tally(most=_SKID)", "Tally(most=_SKID - 1)"),
            "lands too early": ("skid.w_en.eq(landing)", "skid.w_en.eq(reading)"),
            "overfills": ("self.i.ready.eq(~level.full)", "self.i.ready.eq(1)"),
            "skips a place": (
                "write.addr.eq(write.addr + write.en)",
                "write.addr.eq(write.addr + 1)",
            ),
            "doubles a word": (
                "read.addr.eq(read.addr + fetch)",
                "read.addr.eq(read.addr + (fetch & ~spoken.down))",
            ),
        }
    ),
)
def test_a_broken_block_fifo_fails(right: str, wrong: str, tmp_path: Path) -> None:
    copy = broken_copy(block_fifo, right, wrong, tmp_path)
    result = prove(block_fifo_claims(copy.BlockFifo(shape=1, depth=2), 2), depth=10)
    assert result.broken is not None or result.missed, result
