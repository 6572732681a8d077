"""Progress of place and route, from nextpnr's log; how far a phase is stands in parentheses."""

import re

__all__ = ["phase_of"]

_PLACING = re.compile(r"Info: iter=(\d+) steplen")
_REFINING = re.compile(r"Info: +at iteration #(\d+): temp")
_ROUTING = re.compile(r"Info: +\d+ \|[ \d]*\|[ \d]*\| *(\d+)\|")


def phase_of(line: str) -> str | None:
    """What a line of the log says in a few words; None where it says nothing new."""
    if line.startswith("Info: Packing"):
        return "packing"
    if line.startswith("Info: Running Static placer"):
        return "placing"
    if found := _PLACING.match(line):
        return f"placing (pass {found[1]})"
    if found := _REFINING.match(line):
        return f"refining (pass {found[1]})"
    if found := _ROUTING.match(line):
        return f"routing ({int(found[1]):,} connections left)"
    return None
