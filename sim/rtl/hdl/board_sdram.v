// A board with its SDRAM: the design `daedal_board`, its data pins, and the chip that checks every
// time.

`timescale 1ns / 1ps
`default_nettype none

// The cell of a data pin, by its name in the design or in its netlist.
`ifndef DAEDAL_DATA_PAD
`define DAEDAL_DATA_PAD pads.data_pad0
`endif

module daedal_board_sdram #(
    parameter DATA_BITS   = 16,
    parameter ROW_BITS    = 13,
    parameter COLUMN_BITS = 9,
    parameter BANK_BITS   = 2,
    parameter CLOCK_PS = 0,
    parameter MODE = 0,
    parameter ROW_TO_DATA_PS = 0,
    parameter PRECHARGE_PS = 0,
    parameter ROW_OPEN_PS = 0,
    parameter ROW_CYCLE_PS = 0,
    parameter WRITE_RECOVERY_PS = 0,
    parameter REFRESH_PS = 0,
    parameter ROW_TO_ROW_PS = 0,
    parameter MODE_CLOCKS = 0,
    parameter REFRESH_INTERVAL_PS = 0,
    parameter POWER_UP_PS = 0,
    parameter INIT_REFRESHES = 0
) (
    input  wire       clock,
    input  wire       receive,
    output wire       send,
    input  wire       button,
    output wire [7:0] lights
);
  wire clk, cke, csn, rasn, casn, wen;
  wire [BANK_BITS-1:0] ba;
  wire [12:0] a;
  wire [DATA_BITS/8-1:0] dqm;
  wire [DATA_BITS-1:0] d, from_chip;
  wire driven = !board.`DAEDAL_DATA_PAD.T;

  // verilator lint_off PINMISSING
  daedal_board board (
      .clock(clock), .receive(receive), .send(send), .button(button), .lights(lights),
      .sdram_clk(clk), .sdram_cke(cke), .sdram_csn(csn), .sdram_rasn(rasn), .sdram_casn(casn),
      .sdram_wen(wen), .sdram_ba(ba), .sdram_a(a), .sdram_dqm(dqm), .sdram_d(d)
  );

  assign d = driven ? {DATA_BITS{1'bz}} : from_chip;

  daedal_sdram_chip #(
      .DATA_BITS(DATA_BITS), .ROW_BITS(ROW_BITS), .COLUMN_BITS(COLUMN_BITS), .BANK_BITS(BANK_BITS)
  ) chip (
      .clk(clk), .ras_n(rasn | csn), .cas_n(casn | csn), .we_n(wen | csn), .ba(ba), .a(a),
      .dqm(dqm), .dq_i(d), .dq_i_driven(driven), .dq_o(from_chip),
      .cfg_clock_ps(CLOCK_PS), .cfg_mode(MODE), .cfg_row_to_data_ps(ROW_TO_DATA_PS),
      .cfg_precharge_ps(PRECHARGE_PS), .cfg_row_open_ps(ROW_OPEN_PS),
      .cfg_row_cycle_ps(ROW_CYCLE_PS), .cfg_write_recovery_ps(WRITE_RECOVERY_PS),
      .cfg_refresh_ps(REFRESH_PS), .cfg_row_to_row_ps(ROW_TO_ROW_PS),
      .cfg_mode_clocks(MODE_CLOCKS), .cfg_refresh_interval_ps(REFRESH_INTERVAL_PS),
      .cfg_power_up_ps(POWER_UP_PS), .cfg_init_refreshes(INIT_REFRESHES)
  );
endmodule

`default_nettype wire
