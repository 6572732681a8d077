"""``daedal doctor``: which outside tools are there, and what the caches hold."""

from rich.markup import escape
from rich.table import Table

from daedal.commands.options import Json
from daedal.native.caches.report import CacheRecord, cache_records
from daedal.reports.console import make_console, print_json, print_wide
from daedal.sim.rtl.toolchain import ToolRecord, probe

__all__ = ["doctor_command"]


def doctor_command(as_json: Json = False) -> None:
    """List the outside tools: which are there, what each missing one costs, how to get it; and what
    the caches hold."""
    tools, caches = probe(), cache_records()
    if as_json:
        print_json(
            {
                "tools": [_tool_json(record) for record in tools],
                "caches": [_cache_json(record) for record in caches],
            }
        )
        return
    console = make_console()
    console.print(_tool_table(tools))
    print_wide(console, _cache_table(caches))


def _tool_json(record: ToolRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "version": record.version,
        "needed_for": record.needed_for,
        "how_to_get": record.how_to_get,
    }


def _cache_json(record: CacheRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "holds": record.title,
        "folder": None if record.folder is None else str(record.folder),
        "entries": record.num_entries,
        "bytes": record.num_bytes,
        "limit_bytes": record.limit_bytes,
        "problem": record.problem,
    }


def _tool_table(records: list[ToolRecord]) -> Table:
    table = Table()
    for head in ("tool", "version", "needed for", "how to get it"):
        table.add_column(head)
    for record in records:
        found = escape(record.version) if record.version else "[red]missing[/red]"
        how = "" if record.version else record.how_to_get
        table.add_row(record.name, found, record.needed_for, how)
    return table


def _cache_table(records: list[CacheRecord]) -> Table:
    table = Table()
    for head in ("cache", "holds", "size", "limit", "folder"):
        table.add_column(head)
    for record in records:
        folder = escape(str(record.folder)) if record.folder else ""
        if record.problem is not None:
            folder = f"[red]{escape(record.problem)}[/red]"
        sizes = (_megabytes(record.num_bytes), _megabytes(record.limit_bytes))
        table.add_row(record.name, record.title, *sizes, folder)
    return table


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):,.1f} MiB"
