"""`Database`: records kept, merged, exported and loaded; files that are none."""

import dataclasses
import json
import re
import sqlite3

import pytest

from daedal.common.errors import TuningError, UserError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune import sqlite_file
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import UNVERIFIED, Record
from daedal.compiler.tune.workload import Workload

WORKLOAD = Workload.of("matmul", attributes={}, shapes={"a": (4, 4)}, layouts={"a": "NC"})
OTHER = Workload.of("matmul", attributes={}, shapes={"a": (4, 8)}, layouts={"a": "NC"})
SETTING = (WORKLOAD, "fingerprint", "ddr", "accelerator")
KIT = "1.2"


def record(height: int, cycles: int | None, *, when: int = 100, **fields) -> Record:
    config = Config.of(height=height, width=2)
    return dataclasses.replace(Record(*SETTING, config, cycles, KIT, when), **fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records.db"


@pytest.fixture
def database(path):
    with Database(path, kit=KIT) as database:
        yield database


RECORDS = [record(1, 30), record(2, 10), record(3, None), record(4, 20)]


def test_records_are_there_after_opening_again(path):
    with Database(path, kit=KIT) as database:
        assert database.add(RECORDS) == 4
    with Database(path, kit=KIT) as database:
        assert database.records() == RECORDS


def test_a_file_that_is_made_with_the_first_record(path):
    with Database(path, kit=KIT, when_written=True) as database:
        assert database.best(*SETTING) is None and database.records() == []
        assert not path.exists()
        # What another process has written meanwhile is found.
        with Database(path, kit=KIT, when_written=True) as other:
            other.add(RECORDS[:2])
        assert database.records() == RECORDS[:2]
        database.add(RECORDS)
    with Database(path, kit=KIT) as database:
        assert database.records() == RECORDS
    with pytest.raises(TuningError, match="must be of Daedal"):
        Database(path, kit="another", when_written=True)


def test_the_best_has_the_fewest_cycles(database):
    assert database.best(*SETTING) is None
    database.add([RECORDS[2]])
    assert database.best(*SETTING) is None
    database.add(RECORDS)
    assert database.best(*SETTING) == RECORDS[1]


@pytest.mark.parametrize(
    ("field", "value"),
    [("workload", OTHER), ("fingerprint", "another"), ("memory", "slow"), ("target", "cpu")],
)
def test_settings_do_not_mix(database, field, value):
    other = record(1, 5, **{field: value})
    database.add([*RECORDS, other])
    assert database.best(*SETTING) == RECORDS[1]
    assert database.records(**{field: value}) == [other]
    assert len(database.records()) == 5
    assert database.best(other.workload, other.fingerprint, other.memory, other.target) == other


def test_measured_configurations_include_those_that_failed(database):
    database.add(RECORDS)
    database.add([record(7, 1, memory="slow")])
    assert database.measured(*SETTING) == {item.config: item.cycles for item in RECORDS}


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (record(1, 10, when=1), record(1, 20, when=2), 20),
        (record(1, None, when=2), record(1, 20, when=1), 20),
        (record(1, 10, when=1), record(1, 20, when=1), 10),
        (record(1, None, when=1), record(1, None, when=2), None),
        (record(1, None, when=2, failure=UNVERIFIED), record(1, None, failure="x", when=1), None),
    ],
)
def test_a_configuration_has_one_record_whatever_the_order(tmp_path, first, second, kept):
    for name, order in (("a", (first, second)), ("b", (second, first))):
        with Database(tmp_path / name, kit=KIT) as database:
            for item in order:
                database.add([item])
            (found,) = database.records()
            assert found.cycles == kept and found.when == max(
                item.when
                for item in order
                if (item.cycles is None) == (kept is None) and item.failure != UNVERIFIED
            )


def test_why_a_configuration_failed_is_kept(path):
    slow = record(1, None, failure="timed out", limit_seconds=0.05)
    with Database(path, kit=KIT) as database:
        database.add([slow])
        assert database.records() == [slow]
        later = record(1, None, when=101, failure="timed out", limit_seconds=120.0)
        database.add([later])
        assert database.records() == [later]


def older(path) -> None:
    """Make the file one of the tables that earlier versions had."""
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE records RENAME TO others")
        connection.execute(sqlite_file._OLD_RECORDS)
        connection.execute(
            "INSERT INTO records SELECT workload, fingerprint, memory, target, config, cycles, time"
            " FROM others"
        )
        connection.execute("DROP TABLE others")
    connection.close()


@pytest.mark.parametrize("change", [older, lambda _path: None])
def test_a_file_of_another_version_is_adopted_to_be_measured_again(path, change):
    with Database(path, kit=KIT) as database:
        database.add(record(height, 100 - height) for height in range(1, 21))
        database.add([record(30, None, failure="crashed"), record(7, 5, workload=OTHER)])
    change(path)
    refused(path, "is of '1.2', whose cycles may differ", kit="2.0")
    for _ in range(2):
        with Database(path, kit="2.0", adopts=True) as database:
            found = database.records()
            assert {item.failure for item in found} == {UNVERIFIED}
            assert all(item.cycles is None and item.kit == "2.0" for item in found)
            assert database.best(*SETTING) is None
            heights = sorted(
                dict(item.config.values)["height"] for item in found if item.workload == WORKLOAD
            )
            assert heights == list(range(13, 21)), "those with the fewest cycles"
            assert [item.config for item in found if item.workload == OTHER] == [
                record(7, 5).config
            ]
    with Database(path, kit="2.0") as database:
        database.add([record(20, 3, kit="2.0", when=1)])
        assert database.best(*SETTING).cycles == 3


def test_a_damaged_file_of_another_version_is_not_adopted(path):
    data = filled(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(TuningError, match="must be a whole SQLite file"):
        Database(path, kit="2.0", adopts=True)


def test_lines_bring_the_same_records_elsewhere(database, tmp_path):
    database.add([*RECORDS, record(1, 5, workload=OTHER)])
    assert database.export(tmp_path / "lines") == 5
    with Database(tmp_path / "second", kit=KIT) as second:
        assert second.load(tmp_path / "lines") == 5
        assert second.records() == database.records()
        assert second.load(tmp_path / "lines") == 5
        second.export(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "lines").read_bytes()


def good_line() -> bytes:
    return json.dumps(RECORDS[0].to_json()).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "line 2 of 'PATH' must be a record: a record must be JSON"),
        (b"{}\n", "line 2 of 'PATH' must be a record: a record must be an object with workload"),
        (good_line()[:-20], "a record must be JSON"),
        (b"[" * 60_000, "a record must be JSON"),
        (b" " * 70_000 + good_line(), "a record must have at most 65536 bytes"),
        (b"\xff\xfe\n", "a record must be JSON"),
        (good_line().replace(b'"1.2"', b'"1.1"'), "must be of Daedal 1.2, not 1.1; measure it"),
    ],
)
def test_a_broken_line_adds_nothing(database, tmp_path, line, message):
    database.add([record(9, 9)])
    path = tmp_path / "lines"
    path.write_bytes(good_line() + line)
    with pytest.raises(TuningError, match=re.escape(message.replace("PATH", str(path)))):
        database.load(path)
    assert database.records() == [record(9, 9)]


def test_a_missing_file_of_lines_is_named(database, tmp_path):
    with pytest.raises(TuningError, match="a file of records must be a readable file"):
        database.load(tmp_path / "none")


def test_a_record_of_another_kit_adds_nothing(database):
    with pytest.raises(TuningError, match=r"must be of Daedal 1\.2, not 3; measure it again"):
        database.add([RECORDS[0], record(2, 1, kit="3")])
    assert database.records() == []


def test_what_the_caller_raises_between_records_adds_nothing(database):
    def broken():
        yield RECORDS[0]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        database.add(broken())
    assert database.records() == []


def filled(path) -> bytes:
    """The bytes of a database with records, written back into its one file."""
    with Database(path, kit=KIT) as database:
        database.add(record(height, height + 1) for height in range(500))
    return path.read_bytes()


def refused(path, message: str, kit: str = KIT) -> None:
    before = path.read_bytes()
    with pytest.raises(TuningError, match=message) as caught:
        with Database(path, kit=kit) as database:
            database.records()
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_another_kit_is_refused(path):
    filled(path)
    with pytest.raises(TuningError, match=r"must be of Daedal 2\.0; .* is of '1\.2', whose cycles"):
        Database(path, kit="2.0")
    with Database(path, kit=KIT) as database:
        assert len(database.records()) == 500


@pytest.mark.parametrize("data", [b"not a database " * 100, b"{}", b"\0" * 5000])
def test_a_file_that_is_no_database_is_refused(path, data):
    path.write_bytes(data)
    refused(path, "must be a whole SQLite file")


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3, 0.6, 0.95, 0.999])
def test_a_database_cut_short_is_refused(path, share):
    data = filled(path)
    path.write_bytes(data[: int(len(data) * share)])
    # SQLite fills up the last page; what it then holds is no record.
    refused(path, "must be a whole SQLite file|has a broken row")


def test_damage_is_refused_or_changes_nothing(path, rng):
    data = filled(path)
    with Database(path, kit=KIT) as database:
        expected = database.records()
    for _ in range(60):
        damaged = bytearray(data)
        start = int(rng.integers(len(data)))
        damaged[start : start + 16] = rng.bytes(16)[: len(data) - start]
        path.write_bytes(damaged)
        try:
            with Database(path, kit=KIT) as database:
                found = database.records()
        except UserError:
            continue
        # Damage within a number or a name that stays one is not noticed; a row is never lost.
        assert len(found) == len(expected)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (a INTEGER)",
        "CREATE VIEW mine AS SELECT 1",
        "CREATE TRIGGER mine AFTER INSERT ON records BEGIN DELETE FROM records; END",
        "ALTER TABLE records ADD COLUMN more",
    ],
)
@pytest.mark.parametrize("ours", [False, True])
def test_another_schema_is_refused(path, statement, ours):
    if ours:
        filled(path)
    with sqlite3.connect(path) as connection:
        if not ours:
            connection.execute("CREATE TABLE records (a)")
        connection.execute(statement)
    connection.close()
    refused(path, "must have the tables of this version of Daedal")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET config = '{}'",
        "UPDATE records SET config = '['",
        "UPDATE records SET config = x'00'",
        "UPDATE records SET cycles = -5",
        "UPDATE records SET cycles = 'many'",
        "UPDATE records SET time = 1.5",
        "UPDATE records SET memory = ''",
        "UPDATE records SET workload = 'another'",
        "UPDATE workloads SET description = '{}'",
        "DELETE FROM workloads",
        "UPDATE workloads SET description = printf('%.*c', 1000000, ' ')",
    ],
)
def test_broken_rows_are_refused(path, statement):
    with Database(path, kit=KIT) as database:
        database.add(RECORDS[:1])
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    refused(path, "must hold records only; .* has a broken row|too big")


@pytest.mark.parametrize("versions", [[], ["1.2", "1.2"], [None], ["1.3"]])
def test_a_broken_kit_is_refused(path, versions):
    filled(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM kit")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for version in versions:
            if version is not None:
                connection.execute("INSERT INTO kit VALUES (?)", (version,))
    connection.close()
    refused(path, r"must be of Daedal 1\.2")


def test_a_database_that_another_holds_is_named(path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.1)
    with Database(path, kit=KIT) as first, Database(path, kit=KIT) as second:
        with first._file.transaction():
            with pytest.raises(TuningError, match=r"must be free within 0\.1 s, and another proc"):
                second.add(RECORDS)
            assert second.records() == []
        second.add(RECORDS)
        assert first.records() == RECORDS


def test_the_size_is_bounded(path, monkeypatch):
    size = len(filled(path))
    monkeypatch.setattr(sqlite_file, "MAX_FILE_BYTES", size)
    with Database(path, kit=KIT) as database:
        expected = database.records()
        with pytest.raises(TuningError, match="is not: database or disk is full"):
            database.add(record(height, 1) for height in range(1000, 3000))
        assert database.records() == expected
    monkeypatch.setattr(sqlite_file, "MAX_FILE_BYTES", size - 1)
    refused(path, f"must have at most {size - 1} bytes; .* has {size}")


def test_transactions_reach_the_disk_through_the_log(database):
    for pragma, expected in (("journal_mode", "wal"), ("synchronous", 2), ("trusted_schema", 0)):
        assert database._file.execute(f"PRAGMA {pragma}") == [(expected,)]


def test_a_database_is_its_one_file_after_closing(path):
    filled(path)
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_link_to_a_database_stays_one(path, tmp_path):
    filled(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    with Database(link, kit=KIT) as database:
        database.add([record(1000, 5)])
    assert link.is_symlink()
    with Database(path, kit=KIT) as database:
        assert len(database.records()) == 501


def test_a_folder_and_a_missing_folder_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "records.db"):
        with pytest.raises(UserError, match="an output must be"):
            Database(path)


def test_an_empty_file_becomes_a_database(path):
    path.touch()
    with Database(path) as database:
        assert database.records() == [] and database.kit
