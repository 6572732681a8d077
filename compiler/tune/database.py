"""`Database`: records of measured configurations in one SQLite file, shared by processes.

Every change is one transaction in SQLite's write-ahead log: when `add` returns, its records survive
the end of the process and of the machine; a process that is killed before leaves none of them.
Files come from others: `SqliteFile` checks the file, and every row is checked when it is read.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from daedal.common.errors import TuningError
from daedal.common.files import write_atomically
from daedal.common.inputs import open_input
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.record import Record, kit_version
from daedal.compiler.tune.sqlite_file import SqliteFile
from daedal.compiler.tune.workload import Workload, parse_json

__all__ = ["Database"]

MAX_LINE_BYTES = 1 << 16

_ADD_WORKLOAD = "INSERT INTO workloads VALUES (?, ?) ON CONFLICT DO NOTHING"

# One record for each configuration: a measured one before a failed one, then the newest. The
# outcome does not depend on the order in which records arrive.
_ADD_RECORD = """
INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET cycles = excluded.cycles, time = excluded.time, failure = excluded.failure,
    limit_seconds = excluded.limit_seconds
WHERE (excluded.cycles IS NOT NULL, excluded.failure <> 'unverified', excluded.time,
       coalesce(-excluded.cycles, 0), excluded.limit_seconds, excluded.failure)
    > (records.cycles IS NOT NULL, records.failure <> 'unverified', records.time,
       coalesce(-records.cycles, 0), records.limit_seconds, records.failure)
"""

_SELECT = """
SELECT records.workload, description, fingerprint, memory, target, config, cycles, time, failure,
    limit_seconds
FROM records LEFT JOIN workloads ON workloads.key = records.workload
"""


class Database:
    """Records of one version of the kit, in the file `path`.

    A missing file is made now, or `when_written` with the first record.

    With `adopts`, a file of another version becomes one of this version: of the cycles that it
    knows for each workload the configurations with the fewest stay, to be measured again
    (`record.UNVERIFIED`).

    A configuration has one record for each workload, variant, memory and target: one that was
    measured replaces one that failed, and a newer one replaces an older one. Use one object in one
    thread of one process.

    Raises
    ------
    TuningError
        The file is no tuning database, is damaged, or belongs to another version. It is left as it
        is. Every method raises it if it finds this later, or waits too long for other processes.
    UserError
        No file can be made there.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        kit: str | None = None,
        when_written: bool = False,
        adopts: bool = False,
    ) -> None:
        self._path = Path(path)
        self.kit = kit_version() if kit is None else kit
        self._file = SqliteFile(self._path, self.kit, when_written=when_written, adopts=adopts)

    def __enter__(self) -> "Database":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Other methods may not be called afterwards."""
        self._file.close()

    def add(self, records: Iterable[Record]) -> int:
        """Add records, all or none, and return how many were given.

        Other processes cannot write while `records` is read, so measure before, not in it.

        Raises TuningError if one belongs to another version of the kit.
        """
        count = 0
        with self._file.transaction():
            for record in records:
                self._insert(record)
                count += 1
        return count

    def best(self, workload: Workload, fingerprint: str, memory: str, target: str) -> Record | None:
        """The record with the fewest cycles; None if nothing was measured."""
        condition, values = _condition(workload, fingerprint, memory, target)
        found = self._select(
            f"{condition} AND cycles IS NOT NULL ORDER BY cycles, config LIMIT 1", values
        )
        return found[0] if found else None

    def records(
        self,
        workload: Workload | None = None,
        fingerprint: str | None = None,
        memory: str | None = None,
        target: str | None = None,
    ) -> list[Record]:
        """All records that agree with what is given, in an order that depends on them alone."""
        condition, values = _condition(workload, fingerprint, memory, target)
        order = "ORDER BY records.workload, fingerprint, memory, target, config"
        return self._select(f"{condition} {order}", values)

    def measured(
        self, workload: Workload, fingerprint: str, memory: str, target: str
    ) -> dict[Config, int | None]:
        """Cycles by configuration, None for those that failed."""
        found = self.records(workload, fingerprint, memory, target)
        return {record.config: record.cycles for record in found}

    def export(self, path: str | Path) -> int:
        """Write all records to the file `path`, a JSON object a line; return how many.

        Raises UserError as `write_atomically`.
        """
        found = self.records()
        lines = (json.dumps(record.to_json(), separators=(",", ":")) for record in found)
        write_atomically(Path(path), "".join(f"{line}\n" for line in lines))
        return len(found)

    def load(self, path: str | Path) -> int:
        """Add the records that `export` wrote, all or none; return how many the file has.

        Raises TuningError for a line that is no record, or of another version of the kit.
        """
        with open_input(path, "a file of records", TuningError) as file:
            return self.add(_parsed_lines(file, path))

    def _insert(self, record: Record) -> None:
        if record.kit != self.kit:
            raise TuningError(
                f"a record must be of Daedal {self.kit}, not {record.kit}; measure it again"
            )
        workload = record.workload
        key = workload.key
        self._file.execute(_ADD_WORKLOAD, (key, workload.text))
        setting = (key, record.fingerprint, record.memory, record.target)
        config = json.dumps(record.config.to_json(), separators=(",", ":"))
        outcome = (record.cycles, record.when, record.failure, record.limit_seconds)
        self._file.execute(_ADD_RECORD, (*setting, config, *outcome))

    def _select(self, condition: str, values: tuple[str, ...]) -> list[Record]:
        rows = self._file.execute(f"{_SELECT} {condition}", values)
        return [self._record(row) for row in rows]

    def _record(self, row: tuple[Any, ...]) -> Record:
        key, description, fingerprint, memory, target, config, *outcome = row
        cycles, when, failure, limit_seconds = outcome
        try:
            return Record.from_json(
                {
                    "workload": key,
                    "description": parse_json(description),
                    "fingerprint": fingerprint,
                    "memory": memory,
                    "target": target,
                    "kit": self.kit,
                    "config": parse_json(config),
                    "cycles": cycles,
                    "when": when,
                    "failure": failure,
                    "limit_seconds": limit_seconds,
                }
            )
        except TuningError as error:
            raise TuningError(
                f"a tuning database must hold records only; {str(self._path)!r} has a broken row: "
                f"{error}"
            ) from error


def _condition(
    workload: Workload | None, fingerprint: str | None, memory: str | None, target: str | None
) -> tuple[str, tuple[str, ...]]:
    """A WHERE clause for what is given, and its values."""
    given = {
        "records.workload": None if workload is None else workload.key,
        "fingerprint": fingerprint,
        "memory": memory,
        "target": target,
    }
    chosen = {column: value for column, value in given.items() if value is not None}
    clause = " AND ".join(f"{column} = ?" for column in chosen)
    return f"WHERE {clause}" if clause else "", tuple(chosen.values())


def _parsed_lines(file: BinaryIO, path: str | Path) -> Iterator[Record]:
    """The records of a file of JSON lines."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        try:
            if len(line) > MAX_LINE_BYTES:
                raise TuningError(f"a record must have at most {MAX_LINE_BYTES} bytes")
            yield Record.from_json(parse_json(line))
        except TuningError as error:
            raise TuningError(
                f"line {number} of {str(path)!r} must be a record: {error}"
            ) from error
