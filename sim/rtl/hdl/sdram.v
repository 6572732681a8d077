// An SDRAM in the place of dram.v: the emitted controller, and a chip that checks every time.
//
// `memory_rst_n` of the harness is the controller's `machine_reset`: it forgets the machine's bursts,
// while the chip goes on. sim/rtl puts macros in front of this file: widths, times, and in
// DAEDAL_SDRAM_SPARE_CLOCKS what the pads of a board would delay data that were read.

`timescale 1ns / 1ps
`default_nettype none

/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off WIDTHTRUNC */

module daedal_sdram #(
    parameter DATA_BITS = 64,
    parameter ADDR_BITS = 32,
    parameter ID_BITS   = 1
) (
    input  wire                   clk,
    input  wire                   pins_clk,
    input  wire                   rst,
    input  wire [31:0]            cfg_phase,  // isa/sdram_memory.py
    output wire                   may_start,  // the start write, if it is offered in the next cycle,
                                              // is accepted in that phase
    input  wire                   starts,     // it is accepted

    input  wire [ID_BITS-1:0]     s_arid,
    input  wire [ADDR_BITS-1:0]   s_araddr,
    input  wire [7:0]             s_arlen,
    input  wire                   s_arvalid,
    output wire                   s_arready,
    output wire [ID_BITS-1:0]     s_rid,
    output wire [DATA_BITS-1:0]   s_rdata,
    output wire [1:0]             s_rresp,
    output wire                   s_rlast,
    output wire                   s_rvalid,
    input  wire                   s_rready,

    input  wire [ID_BITS-1:0]     s_awid,
    input  wire [ADDR_BITS-1:0]   s_awaddr,
    input  wire [7:0]             s_awlen,
    input  wire                   s_awvalid,
    output wire                   s_awready,
    input  wire [DATA_BITS-1:0]   s_wdata,
    input  wire [DATA_BITS/8-1:0] s_wstrb,
    input  wire                   s_wlast,
    input  wire                   s_wvalid,
    output wire                   s_wready,
    output wire [ID_BITS-1:0]     s_bid,
    output wire [1:0]             s_bresp,
    output wire                   s_bvalid,
    input  wire                   s_bready
);
  localparam CHIP_BITS = DATA_BITS / 4;
  localparam SPARE = `DAEDAL_SDRAM_SPARE_CLOCKS;
  localparam BEFORE_START = 1;  // cycles from `may_start` to the one that accepts the start write

  // The chip is powered up once; a reset of the machine does not concern it.
  reg [2:0] powering = 7;
  wire power_up = powering != 0;
  always @(posedge clk) if (power_up) powering <= powering - 1;

  // ---- the phase of the refresh ----------------------------------------------------------------
  // `since` cycles ago was the decision in which the last refresh fell due; `quiet` of them have
  // fallen due since the machine had a burst, so two mean that all rows were closed by one.
  reg [31:0] until_due = 2 * `DAEDAL_SDRAM_POWER_UP - 1, since = 0;
  reg [1:0] quiet = 0;
  wire busy = rst || s_arvalid || s_rvalid || s_awvalid || s_wvalid || s_bvalid;
  always @(posedge clk) if (!power_up) begin
    until_due <= until_due == 0 ? 2 * `DAEDAL_SDRAM_INTERVAL - 1 : until_due - 1;
    since <= until_due == 0 ? 1 : since + 1;
    if (busy) quiet <= 0;
    else if (until_due == 0 && quiet != 3) quiet <= quiet + 1;
  end
  localparam PHASES = 2 * `DAEDAL_SDRAM_INTERVAL;
  assign may_start = quiet[1] && (since + BEFORE_START) % PHASES == cfg_phase;
  always @(posedge clk)
    if (starts && since % PHASES != cfg_phase)
      $fatal(1, "a run starts in phase %0d, not %0d", since % PHASES, cfg_phase);

  // ---- bursts that are open, as the harness reports them ---------------------------------------
  reg [6:0] read_head, read_tail, write_tail, ack_tail, ack_head;
  always @(posedge clk)
    if (rst) begin
      read_head <= 0;
      read_tail <= 0;
      write_tail <= 0;
      ack_tail <= 0;
      ack_head <= 0;
    end else begin
      if (s_arvalid && s_arready) read_tail <= read_tail + 1;
      if (s_rvalid && s_rready && s_rlast) read_head <= read_head + 1;
      if (s_awvalid && s_awready) write_tail <= write_tail + 1;
      if (s_wvalid && s_wready && s_wlast) ack_tail <= ack_tail + 1;
      if (s_bvalid && s_bready) ack_head <= ack_head + 1;
    end

  // ---- controller and chip ---------------------------------------------------------------------
  wire ras_n, cas_n, we_n, dq_oe;
  wire [`DAEDAL_SDRAM_BANK_BITS-1:0] ba;
  wire [12:0] a;
  wire [CHIP_BITS/8-1:0] dqm;
  wire [CHIP_BITS-1:0] dq_o, chip_dq;
  reg [CHIP_BITS-1:0] spare [0:7];
  integer k;
  always @(posedge pins_clk) begin
    spare[0] <= chip_dq;
    for (k = 1; k < 8; k = k + 1) spare[k] <= spare[k-1];
  end
  wire [CHIP_BITS-1:0] dq_i = SPARE == 0 ? chip_dq : spare[SPARE == 0 ? 0 : SPARE - 1];

  sdram_controller controller (
      .clk(clk), .rst(power_up), .pins_clk(pins_clk), .machine_reset(rst),
      .ar__valid(s_arvalid), .ar__ready(s_arready), .ar__payload({s_arlen, s_araddr, s_arid}),
      .r__valid(s_rvalid), .r__ready(s_rready), .r__payload({s_rlast, s_rresp, s_rdata, s_rid}),
      .aw__valid(s_awvalid), .aw__ready(s_awready), .aw__payload({s_awlen, s_awaddr, s_awid}),
      .w__valid(s_wvalid), .w__ready(s_wready), .w__payload({s_wlast, s_wstrb, s_wdata}),
      .b__valid(s_bvalid), .b__ready(s_bready), .b__payload({s_bresp, s_bid}),
      .host__valid(1'b0), .host__ready(), .host__address(0), .host__strobes(0), .host__data(0),
      .host__word_valid(), .host__word(),
      .sdram__ras_n(ras_n), .sdram__cas_n(cas_n), .sdram__we_n(we_n), .sdram__ba(ba), .sdram__a(a),
      .sdram__dqm(dqm), .sdram__dq_o(dq_o), .sdram__dq_oe(dq_oe), .sdram__dq_i(dq_i)
  );

  daedal_sdram_chip #(
      .DATA_BITS(CHIP_BITS), .ROW_BITS(`DAEDAL_SDRAM_ROW_BITS),
      .COLUMN_BITS(`DAEDAL_SDRAM_COLUMN_BITS), .BANK_BITS(`DAEDAL_SDRAM_BANK_BITS)
  ) chip (
      .clk(pins_clk), .ras_n(ras_n), .cas_n(cas_n), .we_n(we_n), .ba(ba), .a(a), .dqm(dqm),
      .dq_i(dq_o), .dq_i_driven(dq_oe), .dq_o(chip_dq), `DAEDAL_SDRAM_TIMES
  );
endmodule

`default_nettype wire
