"""Brings bytes into a board's memory over a serial line, and sends only what memory does not hold.

The board computes checksums of blocks of its memory (`common.block_checksums`), so nothing has to
be remembered here about what earlier runs, other processes, or other hosts have left there.
"""

import time
from collections.abc import Iterator, Sequence

from daedal.common.block_checksums import block_checksums
from daedal.common.bridge import BLOCK_BYTES, CHECKSUM_BYTES, MAX_PAYLOAD_BYTES, Op
from daedal.common.errors import DeviceError
from daedal.common.reporting import Report
from daedal.runtime.devices.serial_line import Request, SerialLine

__all__ = ["send", "update"]


_BLOCKS_PER_ANSWER = MAX_PAYLOAD_BYTES // CHECKSUM_BYTES

_QUIET_SECONDS = 1.0
"""Uploads that take no longer are not reported."""

_REPORT_SECONDS = 0.2


def send(line: SerialLine, address: int, data: bytes, report: Report) -> None:
    """Write `data` to memory at `address`; `report` is called with how far a long upload is.

    Raises DeviceError as `SerialLine.ask_all` does.
    """
    _send(line, [(address, data)], report)


def update(line: SerialLine, address: int, data: bytes, report: Report) -> None:
    """Make memory at `address` hold `data`: as `send`, without the blocks that it holds already.

    Raises DeviceError if memory does not hold what was sent, or as `SerialLine.ask_all` does.
    """
    first = min(-address % BLOCK_BYTES, len(data))
    end = first + (len(data) - first) // BLOCK_BYTES * BLOCK_BYTES
    wrong = _differing(line, address, data, range(first, end, BLOCK_BYTES))
    blocks = [(address + at, data[at : at + BLOCK_BYTES]) for at in wrong]
    _send(line, [(address, data[:first]), *blocks, (address + end, data[end:])], report)
    still_wrong = _differing(line, address, data, wrong)
    if still_wrong:
        raise DeviceError(
            f"the board's memory must hold what is written to it; {len(still_wrong)} of "
            f"{len(wrong)} blocks of {BLOCK_BYTES} bytes do not, the first at "
            f"{address + still_wrong[0]:#x}: run daedal board-test, which says what to look at"
        )


def _send(line: SerialLine, pieces: Sequence[tuple[int, bytes]], report: Report) -> None:
    requests = [
        Request(Op.WRITE_MEMORY, address + at, payload=data[at : at + MAX_PAYLOAD_BYTES])
        for address, data in pieces
        for at in range(0, len(data), MAX_PAYLOAD_BYTES)
    ]
    total = sum(len(request.payload) for request in requests)
    line.ask_all(requests, _Progress(total, line.baud, report).add)


def _differing(line: SerialLine, address: int, data: bytes, blocks: Sequence[int]) -> list[int]:
    """Those blocks of `data`, by where they begin, that memory at `address` does not hold."""
    runs = list(_runs(blocks))
    answers = line.ask_all(
        [
            Request(Op.CHECKSUMS, address + run.start, CHECKSUM_BYTES * len(run) // BLOCK_BYTES)
            for run in runs
        ]
    )
    found = []
    for run, answer in zip(runs, answers, strict=True):
        expected = block_checksums(data[run.start : run.stop])
        for number, checksum in enumerate(expected):
            at = CHECKSUM_BYTES * number
            if answer[at : at + CHECKSUM_BYTES] != int(checksum).to_bytes(CHECKSUM_BYTES, "little"):
                found.append(run.start + BLOCK_BYTES * number)
    return found


def _runs(blocks: Sequence[int]) -> Iterator[range]:
    """Blocks that follow each other, as many as one answer can tell of, in bytes."""
    begin = 0
    for at in range(1, len(blocks) + 1):
        if (
            at == len(blocks)
            or blocks[at] != blocks[at - 1] + BLOCK_BYTES
            or at - begin == _BLOCKS_PER_ANSWER
        ):
            yield range(blocks[begin], blocks[at - 1] + BLOCK_BYTES)
            begin = at


class _Progress:
    """Bytes that have arrived, of all that are sent."""

    def __init__(self, total: int, baud: int, report: Report) -> None:
        self._total, self._report = total, report
        self._is_long = 10 * total / baud > _QUIET_SECONDS
        self._done = 0
        self._begin = self._reported = time.monotonic()

    def add(self, request: Request) -> None:
        """Count a request that was answered."""
        self._done += len(request.payload)
        now = time.monotonic()
        if not self._is_long or now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        rate = self._done / (now - self._begin)
        left = (self._total - self._done) / rate
        self._report(
            f"sending to the board: {self._done / 1e6:.2f} of {self._total / 1e6:.2f} MB, "
            f"{rate / 1e3:.0f} kB/s, {left:.0f} s left"
        )
