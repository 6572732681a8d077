"""Verilog with attributes that assign each port to a bus interface.

Input: emitted Verilog and the interfaces. Output: the same text with an attribute in front of each
port of the top module, and nothing else changed.
"""

import re
from collections.abc import Sequence

from daedal.hw.emit import TOP_MODULE
from daedal.hw.export.interfaces import BusInterface

__all__ = ["with_interface_attributes"]

_TOP = re.compile(rf"^module {TOP_MODULE}\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_PORT = re.compile(r"^  (?:input|output) (?:\[\d+:0\] )?(\w+);$", re.MULTILINE)


def with_interface_attributes(verilog: str, interfaces: Sequence[BusInterface]) -> str:
    """Put X_INTERFACE_INFO on every port, X_INTERFACE_PARAMETER on the first of each interface."""
    attributes = {
        port: _attributes(item, logical, is_first=number == 0)
        for item in interfaces
        for number, (logical, port) in enumerate(item.ports.items())
    }
    top = _TOP.search(verilog)
    assert top is not None, "the emitted text holds the top module"
    found = {match[1] for match in _PORT.finditer(top[0])}
    assert found == attributes.keys(), "every port belongs to an interface, and the other way round"
    body = _PORT.sub(lambda match: attributes[match[1]] + match[0], top[0])
    return verilog[: top.start()] + body + verilog[top.end() :]


def _attributes(item: BusInterface, logical: str, *, is_first: bool) -> str:
    lines = [f'  (* X_INTERFACE_INFO = "{item.definition} {item.name} {logical}" *)\n']
    if is_first:
        settings = ", ".join(f"{name} {value}" for name, value in item.parameters.items())
        lines.append(
            f'  (* X_INTERFACE_PARAMETER = "XIL_INTERFACENAME {item.name}, {settings}" *)\n'
        )
    return "".join(lines)
