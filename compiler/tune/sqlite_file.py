"""`SqliteFile`: the file of a tuning database: opened, checked, bounded, with whole transactions.

The file comes from others: the schema is compared text by text, so there are no triggers and no
views, and sizes are bounded. Nothing is written before the file is known to be a database of ours.

Source: SQLite, "Write-Ahead Logging" (sqlite.org/wal.html) and "Defense Against The Dark Arts"
(sqlite.org/security.html).
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daedal.common.errors import TuningError, first_line
from daedal.common.files import check_output_file
from daedal.compiler.tune.record import UNVERIFIED

__all__ = ["SqliteFile"]

BUSY_SECONDS = 60.0
"""How long an access waits for another process's transaction."""

MAX_FILE_BYTES = 1 << 30
"""Largest database: some millions of records."""

MAX_VALUE_BYTES = 1 << 16
"""Largest text in a database, and largest row."""

_KEPT = 8
"""Configurations of a workload that stay when a file of another version is adopted."""

_OTHER_TABLES = (
    "CREATE TABLE kit (version TEXT NOT NULL)",
    "CREATE TABLE workloads (key TEXT PRIMARY KEY, description TEXT NOT NULL) WITHOUT ROWID",
)
_RECORDS = (
    "CREATE TABLE records (workload TEXT, fingerprint TEXT, memory TEXT, target TEXT, config TEXT,"
    " cycles INTEGER, time INTEGER NOT NULL, failure TEXT NOT NULL, limit_seconds REAL NOT NULL,"
    " PRIMARY KEY (workload, fingerprint, memory, target, config)) WITHOUT ROWID"
)
_OLD_RECORDS = _RECORDS.replace(" failure TEXT NOT NULL, limit_seconds REAL NOT NULL,", "")
"""Of versions that did not keep why a configuration failed."""
_SCHEMA = (*_OTHER_TABLES, _RECORDS)

_ADOPT = (
    "CREATE TEMP TABLE adopted AS SELECT workload, fingerprint, memory, target, config, time,"
    " row_number() OVER (PARTITION BY workload, fingerprint, memory, target"
    " ORDER BY cycles, config) AS place FROM records WHERE cycles IS NOT NULL",
    "DROP TABLE records",
    _RECORDS,
    "INSERT INTO records SELECT workload, fingerprint, memory, target, config, NULL, time,"
    f" '{UNVERIFIED}', 0 FROM adopted WHERE place <= {_KEPT}",
    "DROP TABLE temp.adopted",
)
"""Makes the records of another version those of this one, to be measured again."""


class SqliteFile:
    """The tables of a tuning database of the version `kit`, in the file `path`.

    A missing file is made at once, or with `when_written` by the first transaction; until then,
    statements find no rows. With `adopts`, a file of another version becomes one of this version.

    Raises
    ------
    TuningError
        From every method: the file is no tuning database, is damaged, belongs to another version,
        or is held by another process for too long. It is left as it is.
    UserError
        No file can be made there.
    """

    def __init__(
        self, path: Path, kit: str, *, when_written: bool = False, adopts: bool = False
    ) -> None:
        self.path = path
        self._kit = kit
        self._adopts = adopts
        self._target = check_output_file(path)
        self._connection: sqlite3.Connection
        self._is_open = False
        if not when_written or self._target.exists():
            self._connect()

    def close(self) -> None:
        """Close the file."""
        if self._is_open:
            self._connection.close()

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute one statement, and return all its rows."""
        if not self._is_open:
            if not self._target.exists():
                return []
            self._connect()
        with self._readable():
            return self._connection.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes within are made at the end, or none where an exception ends it."""
        if not self._is_open:
            self._connect()
        with self._readable():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def _connect(self) -> None:
        with self._readable():
            self._connection = sqlite3.connect(
                self._target, timeout=BUSY_SECONDS, isolation_level=None
            )
        self._is_open = True
        try:
            self._open()
        except BaseException:
            self._is_open = False
            self._connection.close()
            raise

    def _open(self) -> None:
        """Check the file, or fill a new one, and prepare the connection."""
        with self._readable():
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.execute("PRAGMA synchronous = FULL")
            schema = self._schema()
        if not schema:
            with self.transaction():
                if not self._schema():  # no other process was faster
                    for statement in _SCHEMA:
                        self._connection.execute(statement)
                    self._connection.execute("INSERT INTO kit VALUES (?)", (self._kit,))
                schema = self._schema()
        if schema not in (set(_SCHEMA), {*_OTHER_TABLES, _OLD_RECORDS}):
            raise TuningError(
                f"a tuning database must have the tables of this version of Daedal; "
                f"{str(self.path)!r} has others; choose another path"
            )
        with self._readable():
            is_ours = self._is_ours()
            if not is_ours and not self._adopts:
                raise self._refused()
            self._bound()
            problem = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            self._write_ahead()
            if not is_ours:
                self._adopt()

    def _is_ours(self) -> bool:
        """Whether the file is of this version of the kit, and has its tables."""
        return self._versions() == [(self._kit,)] and self._schema() == set(_SCHEMA)

    def _versions(self) -> list[tuple[Any, ...]]:
        """What the file says of its version: one row, unless it is damaged."""
        return self._connection.execute("SELECT version FROM kit LIMIT 2").fetchall()

    def _refused(self) -> TuningError:
        """The error for a file of another version."""
        given = ", ".join(f"{version!r:.80}" for (version,) in self._versions()) or "none"
        return TuningError(
            f"a tuning database must be of Daedal {self._kit}; {str(self.path)!r} is of {given}, "
            "whose cycles may differ; `daedal tune` measures its best schedules again, or choose "
            "another path"
        )

    def _adopt(self) -> None:
        """Make a file of another version one of this version."""
        if len(self._versions()) != 1:
            raise self._refused()
        with self.transaction():
            if not self._is_ours():  # no other process was faster
                for statement in _ADOPT:
                    self._connection.execute(statement)
                self._connection.execute("UPDATE kit SET version = ?", (self._kit,))

    def _bound(self) -> None:
        """Bound the size of the file, now and later."""
        (page_bytes,) = self._connection.execute("PRAGMA page_size").fetchone()
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        if pages * page_bytes > MAX_FILE_BYTES:
            raise TuningError(
                f"a tuning database must have at most {MAX_FILE_BYTES} bytes; {str(self.path)!r} "
                f"has {pages * page_bytes}; choose another path"
            )
        self._connection.execute(f"PRAGMA max_page_count = {MAX_FILE_BYTES // page_bytes}")

    def _schema(self) -> set[str]:
        """The statements that made the tables. What SQLite makes by itself has none."""
        with self._readable():
            rows = self._connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
            return {sql for (sql,) in rows}

    def _write_ahead(self) -> None:
        """Switch to the write-ahead log, which SQLite tries only once while others are busy."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn errors of SQLite into TuningError."""
        try:
            yield
        except sqlite3.Error as error:
            if _is_busy(error):
                raise TuningError(
                    f"a tuning database must be free within {BUSY_SECONDS:g} s, and another "
                    f"process holds {str(self.path)!r}; wait until that has ended"
                ) from error
            raise TuningError(
                "a tuning database must be a whole SQLite file that can be read and written; "
                f"{str(self.path)!r} is not: {first_line(error)}; choose another path"
            ) from error


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether another process's transaction was in the way."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)  # errors of Python have none
    return bool(code & 0xFF == sqlite3.SQLITE_BUSY)
