"""Marks figures of a Verilog that is no longer today's.

Input: the records of docs/synthesis.json. `verilog` is the digest of the text that was measured.
Where today's differs, `bench/synthesis/synth_stale.py` adds its digest as `verilog_now`, and a
sentence that says what changed, bound to all these digests: after another change it must be written
anew.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from daedal.common.errors import ToolError

__all__ = [
    "MARK",
    "all_records",
    "explained_anew",
    "explanation",
    "is_stale",
    "marked",
    "stale_digest",
]

MARK = "†"

Record = Mapping[str, Any]


def is_stale(record: Record) -> bool:
    """Whether the Verilog of today differs from what was measured."""
    return record.get("verilog_now", record.get("verilog")) != record.get("verilog")


def marked(text: str, record: Record) -> str:
    """`text`, with the mark if the record is stale."""
    return f"{text} {MARK}" if is_stale(record) else text


def all_records(measured: Record) -> list[dict[str, Any]]:
    """Every record of the file: variants, alternatives, options and the board."""
    lists = [measured.get(name, []) for name in ("variants", "alternatives", "options")]
    board = [measured["board"]] if "board" in measured else []
    return [*(record for records in lists for record in records), *board]


def stale_digest(measured: Record) -> str:
    """Digest of all stale records: of what was measured, and of what is there today."""
    pairs = sorted(
        f"{record['verilog']} {record['verilog_now']}"
        for record in all_records(measured)
        if is_stale(record)
    )
    return hashlib.sha256("\n".join(pairs).encode()).hexdigest()[:16]


def explained_anew(measured: Record) -> dict[str, Any]:
    """The file after records of it were measured again: the sentence holds for those that are still
    stale, and goes with the last of them."""
    found = {name: value for name, value in measured.items() if name != "change"}
    if "change" in measured and any(map(is_stale, all_records(measured))):
        found["change"] = {**measured["change"], "digest": stale_digest(measured)}
    return found


def explanation(measured: Record) -> Iterator[str]:
    """The sentence below the tables, where a record is stale.

    Raises ToolError where none was written for these records.
    """
    if not any(map(is_stale, all_records(measured))):
        return
    change = measured.get("change", {})
    if change.get("digest") != stale_digest(measured):
        raise ToolError(
            "records of synthesis that are older than the Verilog need a sentence that says what "
            'changed; give one: python bench/synthesis/synth_stale.py "WHAT CHANGED"'
        )
    yield f"{MARK} Measured before a change of the Verilog: {change['what']}."
