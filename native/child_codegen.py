"""`compile_in_child`: LLVM text to a module of a back end that must not run in this process.

The SPIR-V back end of LLVM 22 ends the process on what it cannot select, and keeps what it knows of
one module when it writes the next, which makes that one wrong. It also forgets that integers of
odd widths wrap. LLVM makes such integers of masked ones when it optimizes loops for a target, which
is left out, and modules that have any are refused.
"""

import re
import subprocess
import sys

import llvmlite.binding as llvm

from daedal.common.errors import ToolError
from daedal.native.codegen import simplify
from daedal.native.python_child import python_command, python_environment

__all__ = ["compile_in_child"]

_SECONDS = 120
_WIDTHS = frozenset(("1", "8", "16", "32", "64"))


def compile_in_child(text: str, triple: str) -> bytes:
    """The module of a text whose functions are inlined, with stack slots in registers.

    Raises ToolError where LLVM rejects the text, or ends.
    """
    try:
        done = subprocess.run(
            python_command("-m", __name__, triple),
            env=python_environment(),
            input=text.encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"LLVM must translate a module for {triple} within {_SECONDS} seconds"
        ) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        said = [line for line in lines if "LLVM ERROR" in line] or lines[-1:] or ["no message"]
        raise ToolError(
            f"LLVM must translate a module for {triple}, but ended with status {done.returncode}: "
            f"{said[0][:200]}"
        )
    return done.stdout


def _translated(text: str, triple: str) -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=0)
    module = llvm.parse_assembly(text)
    module.triple = triple
    module.data_layout = str(machine.target_data)
    module.verify()
    simplify(module, machine)
    for width in re.findall(r"[ (<{]i(\d+)\b", str(module)):
        if width not in _WIDTHS:
            raise ValueError(f"integers must have one of the widths of memory, not {width}")
    data: bytes = machine.emit_object(module)
    return data


def main() -> None:
    """The child: a triple as argument, text on standard input, the module on standard output."""
    sys.stdout.buffer.write(_translated(sys.stdin.buffer.read().decode(), sys.argv[1]))


if __name__ == "__main__":
    main()
