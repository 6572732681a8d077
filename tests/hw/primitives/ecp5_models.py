"""Models of ECP5's cells, and a bench that holds a component's hard form against its portable one.

The models know only the settings that `hw.primitives` uses, and stop at others. They were written
from the data sheet, apart from those that simulate whole netlists.
Source: Lattice FPGA-TN-02204 (memory), FPGA-TN-02205 (multipliers); Yosys' list of cells
(flip-flops).
"""

import subprocess
from pathlib import Path

from amaranth.back import verilog
from amaranth.lib.wiring import Component, Flow

from daedal.hw.synth.families import Family
from tests.support.verilog_player import icarus_or_skip

__all__ = ["disagreements", "inputs_of"]

_WARM_UP = 16
"""Cycles that are not compared: registers in the text do not say what they start with."""


def _pins(prefix: str, count: int) -> str:
    """Pins as bits of a vector, the highest first."""
    return ", ".join(f"{prefix}{k}" for k in reversed(range(count)))


def _settings(**expected: str) -> str:
    """Parameters that must keep a value."""
    lines = [f'  parameter {name} = "";' for name in expected]
    wrong = " || ".join(f'{name} != "{value}"' for name, value in expected.items())
    return "\n".join([*lines, f'  initial if ({wrong}) $fatal(1, "%m: setting");'])


_BLOCK_RAM = f"""
module DP16KD(input CLKA, CLKB, CEA, CEB, OCEA, OCEB, WEA, WEB, RSTA, RSTB,
  {_pins("CSA", 3)}, {_pins("CSB", 3)}, {_pins("ADA", 14)}, {_pins("ADB", 14)},
  {_pins("DIA", 18)}, {_pins("DIB", 18)}, output {_pins("DOA", 18)}, {_pins("DOB", 18)});
  parameter DATA_WIDTH_A = 0, DATA_WIDTH_B = 0;
{
    _settings(
        REGMODE_A="OUTREG",
        REGMODE_B="OUTREG",
        CSDECODE_A="0b000",
        CSDECODE_B="0b000",
        RESETMODE="SYNC",
        ASYNC_RESET_RELEASE="SYNC",
        GSR="DISABLED",
    )
}
  initial if (DATA_WIDTH_A != DATA_WIDTH_B) $fatal(1, "%m: widths");
  // Sixteen units of one bit, with two more bits that only words of 9 bits and more have.
  reg [17:0] array[0:1023];
  integer k;
  initial for (k = 0; k < 1024; k = k + 1) array[k] = 0;
  wire [13:0] a = {{{_pins("ADA", 14)}}}, b = {{{_pins("ADB", 14)}}};
  wire [35:0] d = {{{_pins("DIB", 18)}, {_pins("DIA", 18)}}};
  wire fault = {_pins("CSA", 3).replace(", ", " | ")} | {_pins("CSB", 3).replace(", ", " | ")}
    | WEB | RSTA | RSTB;
  reg [35:0] first = 0, second = 0;
  function [13:0] place(input [13:0] address);  // without what is below a word
    place = DATA_WIDTH_A == 36 ? {{address[13:5], 5'd0}}
      : DATA_WIDTH_A == 18 ? {{address[13:4], 4'd0}} : DATA_WIDTH_A == 9 ? {{address[13:3], 3'd0}}
      : DATA_WIDTH_A == 4 ? {{address[13:2], 2'd0}}
      : DATA_WIDTH_A == 2 ? {{address[13:1], 1'd0}} : address;
  endfunction
  wire collides = CEA & WEA & CEB & place(a) == place(b);
  wire [13:0] row = place(b);
  always @(posedge CLKB) begin
    if (fault !== 0) $fatal(1, "%m: pins");
    if (OCEB) second <= first;
    if (CEB) case (DATA_WIDTH_B)
      36: first <= {{array[{{row[13:5], 1'b1}}], array[{{row[13:5], 1'b0}}]}};
      18: first <= array[row[13:4]];
      9: first <= array[row[13:4]] >> (row[3] ? 9 : 0);
      default: first <= array[row[13:4]] >> (row[3] ? 9 : 0) >> row[2:0];
    endcase
    if (collides) first <= 36'hx;
  end
  always @(posedge CLKA) if (CEA & WEA) case (DATA_WIDTH_A)
    36: begin
      if (a[0]) array[{{a[13:5], 1'b0}}][8:0] <= d[8:0];
      if (a[1]) array[{{a[13:5], 1'b0}}][17:9] <= d[17:9];
      if (a[2]) array[{{a[13:5], 1'b1}}][8:0] <= d[26:18];
      if (a[3]) array[{{a[13:5], 1'b1}}][17:9] <= d[35:27];
    end
    18: begin
      if (a[0]) array[a[13:4]][8:0] <= d[8:0];
      if (a[1]) array[a[13:4]][17:9] <= d[17:9];
    end
    default: for (k = 0; k < DATA_WIDTH_A; k = k + 1)
      array[a[13:4]][(a[3] ? 9 : 0) + (DATA_WIDTH_A == 9 ? 0 : a[2:0] & -DATA_WIDTH_A) + k] <= d[k];
  endcase
  // A narrow word has its lowest bits only.
  assign {{{_pins("DOB", 18)}}} = DATA_WIDTH_B == 36 ? second[35:18]
    : second & ~(36'hfffffffff << DATA_WIDTH_B);
  assign {{{_pins("DOA", 18)}}} = DATA_WIDTH_B == 36 ? second : 18'hx;
endmodule
"""

_MULTIPLIER = f"""
module MULT18X18D(input CLK0, CE0, RST0, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
  {_pins("A", 18)}, {_pins("B", 18)}, output {_pins("P", 36)});
  parameter REG_INPUTA_CLK = "NONE", REG_INPUTB_CLK = "NONE";
{_settings(REG_OUTPUT_CLK="CLK0", GSR="DISABLED")}
  wire signed [18:0] a = {{SIGNEDA & A17, {_pins("A", 18)}}};
  wire signed [18:0] b = {{SIGNEDB & B17, {_pins("B", 18)}}};
  reg signed [18:0] a_kept = 0, b_kept = 0;
  wire signed [18:0] a_used = REG_INPUTA_CLK == "CLK0" ? a_kept : a;
  wire signed [18:0] b_used = REG_INPUTB_CLK == "CLK0" ? b_kept : b;
  reg signed [37:0] product = 0;
  assign {{{_pins("P", 36)}}} = product;
  always @(posedge CLK0) begin
    if ((!CE0 | RST0 | SOURCEA | SOURCEB) !== 0) $fatal(1, "%m: pins");
    a_kept <= a;
    b_kept <= b;
    product <= a_used * b_used;
  end
endmodule
"""

_FLIP_FLOP = f"""
module TRELLIS_FF(input CLK, CE, LSR, DI, output reg Q);
{
    _settings(
        GSR="DISABLED",
        CEMUX="1",
        CLKMUX="CLK",
        LSRMUX="LSR",
        REGSET="RESET",
        SRMODE="LSR_OVER_CE",
    )
}
  initial Q = 0;
  always @(posedge CLK) begin
    if ((!CE | LSR) !== 0) $fatal(1, "%m: pins");
    Q <= DI;
  end
endmodule
"""


def inputs_of(component: Component) -> dict[str, int]:
    """Widths of a component's inputs, by the names that they have in Verilog."""
    return _ports(component, Flow.In)


def disagreements(
    portable: Component, hard: Component, stimuli: list[dict[str, int]], folder: Path
) -> tuple[int, int]:
    """Run both forms of a component for a cycle per stimulus; skips the test without Icarus.

    Returns
    -------
    Cycles in which some output differs (one that is not known counts), and cycles in which the
    portable form's outputs changed.
    """
    icarus = icarus_or_skip()
    inputs, outputs = inputs_of(portable), _ports(portable, Flow.Out)
    texts = [
        verilog.convert(component, name=name, platform=platform, emit_src=False)
        for component, name, platform in (
            (portable, "portable", None), (hard, "hard", Family.ECP5)
        )
    ]  # fmt: skip
    assert any(cell in texts[1] for cell in ("MULT18X18D", "DP16KD", "TRELLIS_FF"))
    lines = []
    for stimulus in stimuli:
        word, offset = 0, 0
        for name, width in inputs.items():
            word |= (stimulus[name] & ((1 << width) - 1)) << offset
            offset += width
        lines.append(f"{word:x}\n")
    (folder / "stimuli.hex").write_text("".join(lines), encoding="ascii")
    bench = _bench(inputs, outputs, len(stimuli))
    source = folder / "bench.v"
    source.write_text(
        "\n".join([*texts, _BLOCK_RAM, _MULTIPLIER, _FLIP_FLOP, bench]), encoding="utf-8"
    )
    subprocess.run(
        [icarus.iverilog, "-g2012", "-s", "bench", "-o", "bench.vvp", "bench.v"],
        cwd=folder,
        check=True,
    )
    done = subprocess.run(
        [icarus.vvp, "-n", "bench.vvp"], cwd=folder, check=True, capture_output=True, text=True
    )
    differ, changed = done.stdout.split()[-2:]
    return int(differ), int(changed)


def _ports(component: Component, flow: Flow) -> dict[str, int]:
    return {
        "__".join(str(part) for part in path): len(
            value.as_value() if hasattr(value, "as_value") else value
        )
        for path, member, value in component.signature.flatten(component)
        if member.flow is flow
    }


def _bench(inputs: dict[str, int], outputs: dict[str, int], cycles: int) -> str:
    """Both forms beside each other, all their inputs in one word, the first lowest."""
    bits_in, bits_out = sum(inputs.values()), sum(outputs.values())
    pins, offset = [], 0
    for name, width in inputs.items():
        pins.append(f".{name}(word[{offset} +: {width}])")
        offset += width
    parts = []
    for form in ("portable", "hard"):
        offset = 0
        own = list(pins)
        for name, width in outputs.items():
            own.append(f".{name}({form}_out[{offset} +: {width}])")
            offset += width
        parts.append(f"  wire [{bits_out - 1}:0] {form}_out;")
        parts.append(f"  {form} {form}(.clk(clk), .rst(1'b0), {', '.join(own)});")
    return f"""
module bench;
  reg clk = 0;
  reg [{bits_in - 1}:0] stimuli[0:{cycles - 1}], word;
  reg [{bits_out - 1}:0] last = 0;
  integer cycle, differ = 0, changed = 0;
{chr(10).join(parts)}
  initial begin
    $readmemh("stimuli.hex", stimuli);
    for (cycle = 0; cycle < {cycles}; cycle = cycle + 1) begin
      word = stimuli[cycle];
      #1 clk = 1;
      #1 clk = 0;
      #1 if (cycle >= {_WARM_UP}) differ = differ + (hard_out !== portable_out);
      changed = changed + (portable_out !== last);
      last = portable_out;
    end
    $display("%0d %0d", differ, changed);
  end
endmodule
"""
