"""Recognizes broken contracts of the machine (`hw.contracts`) in a simulator's output.

Input: the text a simulator printed. Output: one sentence.
"""

import re

__all__ = ["broken_contract"]

_VERILATOR = re.compile(r"%Fatal: \S+: Assertion failed in (?P<where>\S+): (?P<rule>.+)")
_ICARUS = re.compile(r"^FATAL: \S+: (?P<rule>.+)\n +Time: .* Scope: (?P<where>\S+)", re.MULTILINE)


def broken_contract(said: str) -> str | None:
    """Name the first contract that was broken, and where in the design; None if none was."""
    found = _VERILATOR.search(said) or _ICARUS.search(said)
    if found is None:
        return None
    where = found["where"].removeprefix("top.")
    return f"the machine must keep its own contracts; it broke one in {where}: {found['rule']}"
