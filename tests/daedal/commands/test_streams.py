"""Standard streams that are closed or full: the work is done, and the status is the command's."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from daedal.commands.streams import prepare_streams
prepare_streams()
print("result")
sys.stdout.flush()
print("progress", file=sys.stderr)
with open("made", "w") as made:
    assert made.fileno() > 2, "else what children print is written to it"
    made.write("made")
assert all(os.fstat(number) for number in range(3))
"""


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        ("", "result\n"),
        (">&-", ""),
        ("2>&-", "result\n"),
        ("<&- >&- 2>&-", ""),
        ("2>/dev/full", "result\n"),
        (">&- 2>/dev/full", ""),
    ],
)
def test_a_stream_that_cannot_be_written_changes_nothing(
    tmp_path: Path, streams: str, said: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {streams}', sys.executable, PROGRAM],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, said)
    assert (tmp_path / "made").read_text() == "made"
