"""``daedal doctor``: which outside tools are there."""

from rich.markup import escape
from rich.table import Table

from daedal.commands.options import Json
from daedal.reports.console import make_console, print_json

__all__ = ["doctor_command"]


def doctor_command(as_json: Json = False) -> None:
    """List the outside tools: which are there, what each missing one costs, how to get it."""
    from daedal.sim.rtl.toolchain import probe

    records = probe()
    if as_json:
        print_json(
            [
                {
                    "name": record.name,
                    "version": record.version,
                    "needed_for": record.needed_for,
                    "how_to_get": record.how_to_get,
                }
                for record in records
            ]
        )
        return
    table = Table()
    for head in ("tool", "version", "needed for", "how to get it"):
        table.add_column(head)
    for record in records:
        found = escape(record.version) if record.version else "[red]missing[/red]"
        how = "" if record.version else record.how_to_get
        table.add_row(record.name, found, record.needed_for, how)
    make_console().print(table)
