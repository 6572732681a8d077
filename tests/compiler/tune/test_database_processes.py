"""`Database` between processes: two that write at once, and writers that are killed."""

import os
import signal
import subprocess
import sys

import pytest

from daedal.compiler.tune.database import Database

WRITER = """
import sys
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload

path, first, count, batch = sys.argv[1], *map(int, sys.argv[2:])
workload = Workload.of("matmul", attributes={}, shapes={}, layouts={})
database = Database(path)
for start in range(first, first + count, batch):
    values = range(start, start + batch)
    database.add(
        Record(workload, "f", "ddr", "accelerator", Config.of(height=value), value + 1)
        for value in values
    )
    print(start, flush=True)  # acknowledges the batch
database.close()
"""


def writer(path, first: int, count: int, batch: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), str(first), str(count), str(batch)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def heights(path) -> list[int]:
    with Database(path) as database:
        found = database.records()
    assert all(record.cycles == record.config["height"] + 1 for record in found)
    return sorted(record.config["height"] for record in found)


def test_two_processes_write_at_once(tmp_path):
    path = tmp_path / "records.db"
    processes = [writer(path, first, 120, 2) for first in (0, 1000)]
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0 and len(output.split()) == 60
    assert heights(path) == [*range(120), *range(1000, 1120)]


def test_a_killed_writer_loses_nothing_acknowledged(tmp_path, rng):
    path = tmp_path / "records.db"
    expected: set[int] = set()
    batch = 5
    for round_ in range(4):
        with writer(path, 100_000 * round_, 100_000, batch) as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(rng.integers(1, 40))]
            os.kill(process.pid, signal.SIGKILL)
            acknowledged += [int(line) for line in process.stdout]
            assert process.wait() == -signal.SIGKILL
        for start in acknowledged:
            expected |= set(range(start, start + batch))
        found = heights(path)
        assert expected <= set(found)
        # Batches are whole; at most the last one of each round was not acknowledged.
        assert len(found) % batch == 0 and len(found) <= len(expected) + batch * (round_ + 1)


def test_a_writer_killed_while_it_makes_the_file(tmp_path, rng):
    for attempt in range(3):
        path = tmp_path / f"{attempt}.db"
        with writer(path, 0, 100_000, 1) as process:
            while not path.exists():
                assert process.poll() is None
            os.kill(process.pid, signal.SIGKILL)
        assert heights(path) == list(range(len(heights(path))))


@pytest.mark.parametrize("held_seconds", [0.5])
def test_a_writer_waits_for_a_transaction(tmp_path, held_seconds):
    path = tmp_path / "records.db"
    with Database(path) as database:
        database._file.execute("BEGIN IMMEDIATE")
        process = writer(path, 0, 10, 5)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2 + held_seconds)
        database._file.execute("ROLLBACK")
        process.communicate(timeout=60)
    assert process.returncode == 0 and heights(path) == list(range(10))
