"""Designs that make Yosys use every cell of an ECP5 that `hw` does."""

from dataclasses import dataclass

__all__ = ["DESIGNS", "Design"]


@dataclass(frozen=True)
class Design:
    """A module `dut`, the widths of its `x` and `y`, and cells that its netlist must have."""

    verilog: str
    inputs: int
    outputs: int
    cells: frozenset[str]


_ARITHMETIC = """
module dut(input clk, input [63:0] x, output [153:0] y);
  wire [26:0] a = x[26:0], b = x[53:27];
  reg signed [35:0] product;
  reg [53:0] big;
  reg [32:0] sum = 33'h0f0f0f0f0;
  reg [7:0] held = 8'ha5;
  reg [15:0] count = 1;
  always @(posedge clk) begin
    product <= $signed(a[17:0]) * $signed(b[17:0]);
    big <= a * b;
    if (x[54]) sum <= sum + {x[60:40], x[11:0]};
    if (x[55]) held <= 8'h3c;
    else if (!x[56]) held <= held ^ (x[57] ? a[7:0] : b[7:0]);
    if (x[58]) count <= 0;
    else if (count < a[15:0]) count <= count - b[3:0];
  end
  assign y = {count, held, sum, big, product, a > b, a - b == 5, ^x, a[3:0] < b[3:0],
              $signed(a) < $signed(b), |x[9:0], a[11:8] == b[11:8]};
endmodule
"""

_MEMORIES = """
module ram #(parameter WIDTH = 8, DEPTH = 512, LANES = 1, STEP = 1) (
    input clk, input [LANES-1:0] we, input re, input [13:0] wa, ra,
    input [WIDTH-1:0] d, output reg [WIDTH-1:0] q
);
  (* ram_style = "block" *) reg [WIDTH-1:0] words[0:DEPTH-1];
  integer i;
  initial for (i = 0; i < DEPTH; i = i + 1) words[i] = (i * i + 3) * STEP;
  localparam LANE = WIDTH / LANES;
  genvar lane;
  generate for (lane = 0; lane < LANES; lane = lane + 1)
    always @(posedge clk) if (we[lane])
      words[wa % DEPTH][lane*LANE +: LANE] <= d[lane*LANE +: LANE];
  endgenerate
  initial q = 0;
  always @(posedge clk) if (re) q <= words[ra % DEPTH];
endmodule

module dut(input clk, input [71:0] x, output [164:0] y);
  wire [13:0] wa = x[13:0], ra = x[27:14];
  wire [3:0] we = x[31:28];
  wire re = x[32];
  wire [35:0] d = x[68:33];
  ram #(36, 64, 4, 2654435761) wide(clk, we, re, wa, ra, d, y[35:0]);
  ram #(50, 600, 1, 40503) odd(clk, we[1], re, wa, ra, {d, d[13:0]}, y[85:36]);
  ram #(18, 128, 2, 977) half(clk, we[1:0], re, wa, ra, d[17:0], y[103:86]);
  ram #(9, 256, 1, 77) byte_and_one(clk, we[0], re, wa, ra, d[8:0], y[112:104]);
  ram #(4, 512, 1, 7) nibble(clk, we[3], re, wa, ra, d[3:0], y[116:113]);
  ram #(1, 2048, 1, 5) bits(clk, we[2], re, wa, ra, d[0], y[117]);
  ram #(2, 1024, 1, 3) pairs(clk, we[0], re, wa, ra, d[1:0], y[119:118]);

  reg [8:0] few[0:31];
  always @(posedge clk) if (we[1]) few[wa[4:0]] <= d[8:0];
  assign y[128:120] = few[ra[4:0]];

  // Two ports that read and write, at addresses that differ in the lowest bit.
  (* ram_style = "block" *) reg [17:0] both[0:127];
  integer i;
  initial for (i = 0; i < 128; i = i + 1) both[i] = i * 40503;
  reg [17:0] one = 0, other = 0;
  wire [6:0] first = {wa[5:0], 1'b0}, second = {ra[5:0], 1'b1};
  always @(posedge clk) begin
    if (we[2]) both[first] <= d[17:0];
    else one <= both[first];
  end
  always @(posedge clk) begin
    if (we[3]) both[second] <= d[35:18];
    else other <= both[second];
  end
  assign y[146:129] = one;
  assign y[164:147] = other;
endmodule
"""

_LOGIC = {"LUT4", "TRELLIS_FF", "PFUMX"}
DESIGNS = {
    "arithmetic": Design(_ARITHMETIC, 64, 154, frozenset({"CCU2C", "MULT18X18D", *_LOGIC})),
    "memories": Design(_MEMORIES, 72, 165, frozenset({"DP16KD", "TRELLIS_DPR16X4", "LUT4"})),
}
