// Watches an AXI4 master's address and data channels and latches the first rule it breaks.
//
// The codes are named in sim/rtl/job.py (`AXI_RULES`). Source: Arm IHI 0022 (AMBA AXI), A3.2.1 (valid
// holds), A3.4.1 (bursts, 4 KiB); the limit of 32 beats and full-width INCR are the machine's own.

`timescale 1ns / 1ps
`default_nettype none

/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off WIDTHTRUNC */

module daedal_axi_rules #(
    parameter DATA_BITS = 64,
    parameter ADDR_BITS = 32,
    parameter ID_BITS   = 2
) (
    input  wire                   clk,
    input  wire                   rst,
    output reg  [7:0]             broken_rule,  // 0: none yet
    input  wire [ID_BITS-1:0]     arid,
    input  wire [ADDR_BITS-1:0]   araddr,
    input  wire [7:0]             arlen,
    input  wire [2:0]             arsize,
    input  wire [1:0]             arburst,
    input  wire                   arvalid,
    input  wire                   arready,
    input  wire [ID_BITS-1:0]     awid,
    input  wire [ADDR_BITS-1:0]   awaddr,
    input  wire [7:0]             awlen,
    input  wire [2:0]             awsize,
    input  wire [1:0]             awburst,
    input  wire                   awvalid,
    input  wire                   awready,
    input  wire [DATA_BITS-1:0]   wdata,
    input  wire [DATA_BITS/8-1:0] wstrb,
    input  wire                   wlast,
    input  wire                   wvalid,
    input  wire                   wready
);
  localparam SHIFT = $clog2(DATA_BITS / 8);
  localparam CONTROL = ID_BITS + ADDR_BITS + 13;

  wire [CONTROL-1:0] ar = {arid, araddr, arlen, arsize, arburst};
  wire [CONTROL-1:0] aw = {awid, awaddr, awlen, awsize, awburst};
  reg  [CONTROL-1:0] ar_was, aw_was;
  reg  [DATA_BITS+DATA_BITS/8:0] w_was;
  reg  ar_waits, aw_waits, w_waits;

  wire [12:0] ar_end = araddr[11:0] + (({5'b0, arlen} + 1) << SHIFT);
  wire [12:0] aw_end = awaddr[11:0] + (({5'b0, awlen} + 1) << SHIFT);

  // Lengths of the write bursts whose last data beat is still to come.
  reg [7:0] lens [0:255];
  reg [7:0] head, tail;
  reg [7:0] beat;

  always @(posedge clk) begin
    ar_waits <= arvalid && !arready;
    aw_waits <= awvalid && !awready;
    w_waits <= wvalid && !wready;
    ar_was <= ar;
    aw_was <= aw;
    w_was <= {wdata, wstrb, wlast};
    if (rst) begin
      broken_rule <= 0;
      ar_waits <= 0;
      aw_waits <= 0;
      w_waits <= 0;
      head <= 0;
      tail <= 0;
      beat <= 0;
    end else begin
      if (awvalid && awready) begin
        lens[tail] <= awlen;
        tail <= tail + 1;
      end
      if (wvalid && wready) begin
        beat <= wlast ? 0 : beat + 1;
        if (wlast) head <= head + 1;
      end
      if (broken_rule == 0) begin
        if (ar_waits && (!arvalid || ar != ar_was)) broken_rule <= 1;
        else if (aw_waits && (!awvalid || aw != aw_was)) broken_rule <= 2;
        else if (w_waits && (!wvalid || {wdata, wstrb, wlast} != w_was)) broken_rule <= 3;
        else if (arvalid && (arburst != 1 || arsize != SHIFT)) broken_rule <= 4;
        else if (awvalid && (awburst != 1 || awsize != SHIFT)) broken_rule <= 5;
        else if (arvalid && arlen > 31) broken_rule <= 6;
        else if (awvalid && awlen > 31) broken_rule <= 7;
        else if (arvalid && ar_end > 4096) broken_rule <= 8;
        else if (awvalid && aw_end > 4096) broken_rule <= 9;
        else if (arvalid && (araddr & (DATA_BITS / 8 - 1)) != 0) broken_rule <= 10;
        else if (awvalid && (awaddr & (DATA_BITS / 8 - 1)) != 0) broken_rule <= 11;
        else if (wvalid && wready && wlast != (beat == lens[head])) broken_rule <= 12;
      end
    end
  end
endmodule

`default_nettype wire
