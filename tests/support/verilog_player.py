"""Plays stimuli to a Verilog module on Icarus, cycle by cycle: for modules with one clock."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.sim.rtl.toolchain import Icarus, find_icarus

__all__ = ["icarus_or_skip", "play"]

Values = Mapping[str, int]

_BENCH = """
module bench;
  reg {clock} = 0;
  reg [{width}-1:0] stimuli[0:{cycles}-1];
  reg [{width}-1:0] inputs;
  wire [{out_width}-1:0] outputs;
  integer i;
  {top} dut({pins});
  initial begin
    $readmemh("stimuli", stimuli);
    for (i = 0; i < {cycles}; i = i + 1) begin
      inputs = stimuli[i];
      #1 $display("%h", outputs);
      {clock} = 1;
      #1 {clock} = 0;
    end
  end
endmodule
"""


def icarus_or_skip() -> Icarus:
    """Icarus, which is optional; skips the test where it is missing."""
    try:
        return find_icarus()
    except ToolError as error:
        pytest.skip(str(error))


def play(
    verilog: str,
    top: str,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    stimuli: Sequence[Values],
    *,
    clock: str = "clk",
) -> list[dict[str, int | None]]:
    """What the outputs are before each edge of the clock, with that cycle's inputs.

    `inputs` and `outputs` are names and widths; an output with an undefined bit is None. Skips
    the test where Icarus is missing.
    """
    tools = icarus_or_skip()
    pins, places = [f".{clock}({clock})"], {}
    for bus, widths in (("inputs", inputs), ("outputs", outputs)):
        place = 0
        for name, width in widths.items():
            pins.append(f".{name}({bus}[{place}+:{width}])")
            places[name] = place
            place += width
    bench = _BENCH.format(
        clock=clock,
        top=top,
        pins=", ".join(pins),
        cycles=len(stimuli),
        width=max(1, sum(inputs.values())),
        out_width=sum(outputs.values()),
    )
    with tempfile.TemporaryDirectory(prefix="daedal-play-") as name:
        folder = Path(name)
        (folder / "design.v").write_text(verilog + bench)
        rows = [sum(row[pin] << places[pin] for pin in inputs) for row in stimuli]
        (folder / "stimuli").write_text("".join(f"{row:x}\n" for row in rows))
        options = ["-g2005", "-s", "bench", "-o", "design.vvp"]
        command = [str(tools.iverilog), *options, "design.v"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        lines = subprocess.run(
            [str(tools.vvp), "-n", "design.vvp"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    return [_outputs(line, outputs, places) for line in lines]


def _outputs(line: str, outputs: Mapping[str, int], places: Values) -> dict[str, int | None]:
    """The outputs in a line of hexadecimal digits; a digit that is none has undefined bits."""
    unknown = int("".join("f" if digit in "xXzZ" else "0" for digit in line), 16)
    known = int("".join("0" if digit in "xXzZ" else digit for digit in line), 16)
    found: dict[str, int | None] = {}
    for name, width in outputs.items():
        mask = (1 << width) - 1
        value = known >> places[name] & mask
        found[name] = None if unknown >> places[name] & mask else value
    return found
