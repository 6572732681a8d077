// The SDRAM controller and its chip, with AXI4 and the host's port for a program that plays bursts
// (sdram.cpp), and faults between the two.
//
// `fault`: 0 none; 1 DQM late by a clock; 2 the last word of a row goes to the word before; 3 no
// PRECHARGE of a single bank; 4 no REFRESH after MODE; 5 the chip's data late by a clock; 6 the data
// of a WRITE late by a clock; 7 every ACTIVE opens the row beside.

`timescale 1ns / 1ps
`default_nettype none

/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off WIDTHTRUNC */

module sdram_bench #(
    parameter DATA_BITS   = 16,
    parameter ROW_BITS    = 13,
    parameter COLUMN_BITS = 9,
    parameter BANK_BITS   = 2,
    parameter ADDR_BITS   = 32,
    parameter WORD_BITS   = 22   // of the number of a bus word
) (
    input  wire                     clk,
    input  wire                     pins_clk,
    input  wire                     rst,
    input  wire                     machine_reset,
    input  wire [3:0]               fault,

    input  wire                     arid,
    input  wire [ADDR_BITS-1:0]     araddr,
    input  wire [7:0]               arlen,
    input  wire                     arvalid,
    output wire                     arready,
    output wire                     rid,
    output wire [4*DATA_BITS-1:0]   rdata,
    output wire [1:0]               rresp,
    output wire                     rlast,
    output wire                     rvalid,
    input  wire                     rready,
    input  wire                     awid,
    input  wire [ADDR_BITS-1:0]     awaddr,
    input  wire [7:0]               awlen,
    input  wire                     awvalid,
    output wire                     awready,
    input  wire [4*DATA_BITS-1:0]   wdata,
    input  wire [DATA_BITS/2-1:0]   wstrb,
    input  wire                     wlast,
    input  wire                     wvalid,
    output wire                     wready,
    output wire                     bid,
    output wire [1:0]               bresp,
    output wire                     bvalid,
    input  wire                     bready,

    input  wire                     host_valid,
    output wire                     host_ready,
    input  wire [WORD_BITS-1:0]     host_address,
    input  wire [DATA_BITS/2-1:0]   host_strobes,
    input  wire [4*DATA_BITS-1:0]   host_data,
    output wire                     host_word_valid,
    output wire [4*DATA_BITS-1:0]   host_word,

    input  wire [31:0]              cfg_clock_ps,
    input  wire [12:0]              cfg_mode,
    input  wire [31:0]              cfg_row_to_data_ps,
    input  wire [31:0]              cfg_precharge_ps,
    input  wire [31:0]              cfg_row_open_ps,
    input  wire [31:0]              cfg_row_cycle_ps,
    input  wire [31:0]              cfg_write_recovery_ps,
    input  wire [31:0]              cfg_refresh_ps,
    input  wire [31:0]              cfg_row_to_row_ps,
    input  wire [31:0]              cfg_mode_clocks,
    input  wire [31:0]              cfg_refresh_interval_ps,
    input  wire [31:0]              cfg_power_up_ps,
    input  wire [31:0]              cfg_init_refreshes
);
  wire ras_n, cas_n, we_n, dq_oe;
  wire [BANK_BITS-1:0] ba;
  wire [12:0] a;
  wire [DATA_BITS/8-1:0] dqm;
  wire [DATA_BITS-1:0] dq_o, chip_dq;

  // One clock before, for faults.
  reg [DATA_BITS/8-1:0] dqm_before;
  reg [DATA_BITS-1:0] dq_before, chip_dq_before;
  reg dq_oe_before, has_mode = 0;
  wire [2:0] command = {ras_n, cas_n, we_n};
  wire moves = command == 4 || command == 5;
  wire left_out = (fault == 3 && command == 2 && !a[10]) || (fault == 4 && command == 1 && has_mode);
  wire row_ends = fault == 2 && moves && &a[COLUMN_BITS-1:2];
  always @(posedge pins_clk) begin
    dqm_before <= dqm;
    dq_before <= dq_o;
    dq_oe_before <= dq_oe;
    chip_dq_before <= chip_dq;
    if (command == 0) has_mode <= 1;
  end

  sdram_controller controller (
      .clk(clk),
      .rst(rst),
      .pins_clk(pins_clk),
      .machine_reset(machine_reset),
      .ar__valid(arvalid),
      .ar__ready(arready),
      .ar__payload({arlen, araddr, arid}),
      .r__valid(rvalid),
      .r__ready(rready),
      .r__payload({rlast, rresp, rdata, rid}),
      .aw__valid(awvalid),
      .aw__ready(awready),
      .aw__payload({awlen, awaddr, awid}),
      .w__valid(wvalid),
      .w__ready(wready),
      .w__payload({wlast, wstrb, wdata}),
      .b__valid(bvalid),
      .b__ready(bready),
      .b__payload({bresp, bid}),
      .host__valid(host_valid),
      .host__ready(host_ready),
      .host__address(host_address),
      .host__strobes(host_strobes),
      .host__data(host_data),
      .host__word_valid(host_word_valid),
      .host__word(host_word),
      .sdram__ras_n(ras_n),
      .sdram__cas_n(cas_n),
      .sdram__we_n(we_n),
      .sdram__ba(ba),
      .sdram__a(a),
      .sdram__dqm(dqm),
      .sdram__dq_o(dq_o),
      .sdram__dq_oe(dq_oe),
      .sdram__dq_i(fault == 5 ? chip_dq_before : chip_dq)
  );

  daedal_sdram_chip #(
      .DATA_BITS(DATA_BITS),
      .ROW_BITS(ROW_BITS),
      .COLUMN_BITS(COLUMN_BITS),
      .BANK_BITS(BANK_BITS)
  ) chip (
      .clk(pins_clk),
      .ras_n(ras_n | left_out),
      .cas_n(cas_n | left_out),
      .we_n(we_n | left_out),
      .ba(ba),
      .a(row_ends ? a & ~13'd4 : fault == 7 && command == 3 ? a ^ 13'd1 : a),
      .dqm(fault == 1 ? dqm_before : dqm),
      .dq_i(fault == 6 ? dq_before : dq_o),
      .dq_i_driven(fault == 6 ? dq_oe_before : dq_oe),
      .dq_o(chip_dq),
      .cfg_clock_ps(cfg_clock_ps),
      .cfg_mode(cfg_mode),
      .cfg_row_to_data_ps(cfg_row_to_data_ps),
      .cfg_precharge_ps(cfg_precharge_ps),
      .cfg_row_open_ps(cfg_row_open_ps),
      .cfg_row_cycle_ps(cfg_row_cycle_ps),
      .cfg_write_recovery_ps(cfg_write_recovery_ps),
      .cfg_refresh_ps(cfg_refresh_ps),
      .cfg_row_to_row_ps(cfg_row_to_row_ps),
      .cfg_mode_clocks(cfg_mode_clocks),
      .cfg_refresh_interval_ps(cfg_refresh_interval_ps),
      .cfg_power_up_ps(cfg_power_up_ps),
      .cfg_init_refreshes(cfg_init_refreshes)
  );
endmodule

`default_nettype wire
