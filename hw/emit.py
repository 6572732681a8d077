"""Verilog of a variant: one text, the same bytes on every host.

Input: a variant. Output: Verilog-2005 with the top module `daedal_top`.
"""

import re
from collections.abc import Sequence
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import IOPort, Value
from amaranth.lib import wiring

from daedal.hw.family import Family, Portable
from daedal.hw.machine import Machine
from daedal.isa.variant import Variant
from daedal.native.python_child import SAFE_PATH, changed_environment, tool_places

__all__ = ["TOP_MODULE", "emit_component", "emit_verilog"]

TOP_MODULE = "daedal_top"


_ZEROED = re.compile(
    r"^  initial begin\n((?:    (\S+?) ?\[\d+\] = \d+'h0+;\n){2,})  end\n", re.MULTILINE
)
_ENTRY = re.compile(r"    (\S+?) ?\[(\d+)\] = (\d+)'h0+;\n")


_ASSERTION = re.compile(
    r"^( *)if \(!(.+)\)\n +\$write\((\".*\")\);\n +assert \(\2\);$", re.MULTILINE
)


def emit_verilog(
    variant: Variant,
    family: Family | None = None,
    *,
    observe: bool = False,
    assertions: bool = False,
) -> str:
    """Return the accelerator as Verilog text, ending with a newline.

    Equal parameters give equal bytes: source locations, which contain paths, are left out, and the
    header has no time stamp but names the source.

    Parameters
    ----------
    variant : the machine.
    family : target of synthesis: hard blocks of that family are instantiated by name where
        `hw.primitives` has them. None gives portable text, for simulators and all tools.
    observe : add the pin of that name for simulations (`hw.observe`); such a machine is not for
        synthesis.
    assertions : check the contracts of `hw.contracts`: a simulation stops when one is violated. Not
        for synthesis, and not with a family.
    """
    use = f", for {family.value}" if family else ", with assertions" if assertions else ""
    title = f"Daedal accelerator, variant {variant.name}, fingerprint {variant.fingerprint}{use}."
    machine = Machine(variant=variant, observe=observe)
    return emit_component(machine, TOP_MODULE, title, family, assertions=assertions)


def emit_component(
    component: wiring.Component,
    name: str,
    title: str,
    family: Family | None = None,
    *,
    assertions: bool = False,
    pads: Sequence[IOPort] = (),
) -> str:
    """Return `component` as Verilog with top module `name`, headed by `title` as a comment.

    `pads` are ports of the top module in addition to the component's own.
    """
    assert not (family and assertions), "assertions are for simulations of the portable form"
    platform = family or (Portable.ASSERTED if assertions else Portable.PLAIN)
    with changed_environment({**SAFE_PATH, **tool_places()}):  # Amaranth starts Yosys in a Python
        text = verilog.convert(
            component,
            name=name,
            platform=platform,
            ports=_ports(component, pads) if pads else None,
            emit_src=False,
            strip_internal_attrs=True,
        )
    # Verilog-2005, all that Icarus reads, has no `assert`. Every simulator supports `$fatal`, and
    # reports its location.
    text = _ASSERTION.sub(r"\1if (!\2)\n\1  $fatal(1, \3);", text)
    assert "assert (" not in text, "Yosys writes assertions in a form that is not known here"
    text = re.sub(r"\A/\*.*?\*/\n", "", text, count=1)  # the generator's name, version and build
    text = _ZEROED.sub(_loop_over_zeros, text)
    header = f"// {title}\n// Generated; change hw/ or the variant instead.\n\n"
    return header + text.rstrip("\n") + "\n"


def _ports(component: wiring.Component, pads: Sequence[IOPort]) -> dict[str, Any]:
    """All ports of the top module by name, those of the component as Amaranth names them."""
    own = {
        "__".join(map(str, path)): Value.cast(value)
        for path, _member, value in component.signature.flatten(component)
    }
    return {name: (port, None) for name, port in {**own, **{pad.name: pad for pad in pads}}.items()}


def _loop_over_zeros(match: re.Match[str]) -> str:
    """A memory initialized to zero in a loop of three lines instead of one line per word.

    Otherwise large scratchpads are most of the text, and most of the time to compile it for
    simulation.
    """
    entries = _ENTRY.findall(match[1])
    names = {(name, width) for name, _, width in entries}
    if len(names) > 1 or [int(number) for _, number, _ in entries] != list(range(len(entries))):
        return match[0]
    ((name, width),) = names
    # An escaped identifier ends with a space.
    memory = f"{name} " if name.startswith("\\") else name
    count = "zeroed_" + re.sub(r"\W", "_", name)
    return (
        f"  integer {count};\n"
        f"  initial for ({count} = 0; {count} < {len(entries)}; {count} = {count} + 1)\n"
        f"    {memory}[{count}] = {width}'h0;\n"
    )
