// A chip of SDR SDRAM that keeps its data and checks everything that its data sheet demands.
//
// The first violation ends the simulation with one sentence, which begins with the time. Times come
// in on ports, from isa/sdram_chip.py by way of sim/rtl/sdram.py; so one compiled simulator
// serves all of them. The clock is that of the pins, and its data come a clock after an edge without
// a delay: phases and delays of wires are the board's.
//
// Accepted by Verilator and Icarus Verilog.

`timescale 1ns / 1ps
`default_nettype none

/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off WIDTHTRUNC */

module daedal_sdram_chip #(
    parameter DATA_BITS   = 16,
    parameter ROW_BITS    = 13,
    parameter COLUMN_BITS = 9,
    parameter BANK_BITS   = 2
) (
    input  wire                   clk,
    input  wire                   ras_n,
    input  wire                   cas_n,
    input  wire                   we_n,
    input  wire [BANK_BITS-1:0]   ba,
    input  wire [12:0]            a,
    input  wire [DATA_BITS/8-1:0] dqm,
    input  wire [DATA_BITS-1:0]   dq_i,
    input  wire                   dq_i_driven,
    output reg  [DATA_BITS-1:0]   dq_o,

    input  wire [31:0]            cfg_clock_ps,
    input  wire [12:0]            cfg_mode,
    input  wire [31:0]            cfg_row_to_data_ps,
    input  wire [31:0]            cfg_precharge_ps,
    input  wire [31:0]            cfg_row_open_ps,
    input  wire [31:0]            cfg_row_cycle_ps,
    input  wire [31:0]            cfg_write_recovery_ps,
    input  wire [31:0]            cfg_refresh_ps,
    input  wire [31:0]            cfg_row_to_row_ps,
    input  wire [31:0]            cfg_mode_clocks,
    input  wire [31:0]            cfg_refresh_interval_ps,
    input  wire [31:0]            cfg_power_up_ps,
    input  wire [31:0]            cfg_init_refreshes
);
  localparam BANKS = 1 << BANK_BITS;
  localparam BURST = 4;
  localparam [63:0] LONGEST_OPEN_PS = 100_000_000;  // tRAS, maximum: the same in all data sheets
  // Not on any bus: what is read while the chip drives nothing.
  localparam [31:0] NOTHING = 32'hdeadbeef;

  reg [DATA_BITS-1:0] mem [0:(1<<(ROW_BITS+BANK_BITS+COLUMN_BITS))-1] /* verilator public_flat_rw */;

  // Times are numbers of clocks, from 1 on; 0 is never.
  reg [63:0] now = 1;
  reg [BANKS-1:0]    is_open = 0;
  reg [ROW_BITS-1:0] open_row     [0:BANKS-1];
  reg [63:0]         activated    [0:BANKS-1];
  reg [63:0]         precharged   [0:BANKS-1];
  reg [63:0]         read_at      [0:BANKS-1];
  reg [63:0]         last_written [0:BANKS-1];
  reg [63:0] any_activated = 0, refreshed = 0, mode_at = 0, moved_at = 0;
  reg [31:0] refreshes = 0;
  reg        is_shut = 0;  // PRECHARGE of all banks came
  reg [63:0] refresh_due_ps = 0;

  // The burst that writes, and the columns on their way out of the chip.
  reg [2:0]             left = 0;
  reg [BANK_BITS-1:0]   write_bank;
  reg [COLUMN_BITS-1:0] write_column;
  reg [7:0]             reading = 0;  // bit k: a column gets to the pins k clocks from now
  reg [COLUMN_BITS+ROW_BITS+BANK_BITS-1:0] coming [0:7];
  reg [DATA_BITS/8-1:0] masked = 0;   // DQM of the clock before
  reg drives = 0, drove = 0;          // the pins before this clock's edge, and a clock earlier

  integer k;
  initial
    for (k = 0; k < BANKS; k = k + 1) begin
      activated[k] = 0;
      precharged[k] = 0;
      read_at[k] = 0;
      last_written[k] = 0;
      open_row[k] = 0;
    end

  wire [2:0] command = {ras_n, cas_n, we_n};
  localparam [2:0] MODE = 0, REFRESH = 1, PRECHARGE = 2, ACTIVE = 3, WRITE = 4, READ = 5, STOP = 6;

  wire [63:0] now_ps = now * cfg_clock_ps;
  wire [2:0] latency = cfg_mode[6:4];

  // Whether `time_ps` have passed since clock `since`.
  function passed(input [63:0] since, input [63:0] time_ps);
    passed = since == 0 || (now - since) * cfg_clock_ps >= time_ps;
  endfunction

  `define REQUIRE(HOLDS, TEXT) \
    if (!(HOLDS)) $fatal(1, "at %0d ns the SDRAM %s", now_ps / 1000, TEXT);

  task after_pauses(input [8*9-1:0] what);
    begin
      if (!passed(refreshed, cfg_refresh_ps))
        $fatal(1, "at %0d ns the SDRAM got %0s too soon after REFRESH (tRFC)", now_ps / 1000, what);
      if (mode_at != 0 && now - mode_at < cfg_mode_clocks)
        $fatal(1, "at %0d ns the SDRAM got %0s too soon after MODE (tMRD)", now_ps / 1000, what);
      if (now_ps < cfg_power_up_ps)
        $fatal(1, "at %0d ns the SDRAM got %0s before the end of its power-up pause",
               now_ps / 1000, what);
    end
  endtask

  task close(input integer bank);
    if (is_open[bank]) begin
      `REQUIRE(passed(activated[bank], cfg_row_open_ps), "got PRECHARGE too soon after ACTIVE (tRAS)")
      `REQUIRE(passed(last_written[bank], cfg_write_recovery_ps),
               "got PRECHARGE too soon after the last column of a WRITE (tWR)")
      `REQUIRE(read_at[bank] == 0 || now - read_at[bank] >= BURST,
               "got PRECHARGE in the middle of a READ")
      `REQUIRE((now - activated[bank]) * cfg_clock_ps <= LONGEST_OPEN_PS,
               "had a row open for more than 100 us (tRAS)")
      `REQUIRE(!(left != 0 && write_bank == bank), "got PRECHARGE in the middle of a WRITE")
      is_open[bank] <= 0;
    end
  endtask

  task write_columns(input [BANK_BITS-1:0] bank, input [COLUMN_BITS-1:0] column);
    integer lane;
    begin
      `REQUIRE(dq_i_driven, "got no data on its pins for a WRITE")
      for (lane = 0; lane < DATA_BITS / 8; lane = lane + 1)
        if (!dqm[lane])
          mem[{open_row[bank], bank, column}][8*lane+:8] <= dq_i[8*lane+:8];
      last_written[bank] <= now;
    end
  endtask

  always @(posedge clk) begin
    now <= now + 1;
    masked <= dqm;
    drives <= reading[0];
    drove <= drives;
    if (dq_i_driven) begin
      `REQUIRE(!drives && !drove, "got data on its pins during a READ's, or a clock after them")
      `REQUIRE(left != 0 || command == WRITE, "got data on its pins without a WRITE")
    end

    // A column that gets to the pins now is masked by the DQM of two clocks before it is sampled.
    for (k = 0; k < 7; k = k + 1) coming[k] <= coming[k+1];
    reading <= reading >> 1;
    dq_o <= NOTHING[DATA_BITS-1:0] ^ now[DATA_BITS-1:0];
    if (reading[0])
      for (k = 0; k < DATA_BITS / 8; k = k + 1)
        if (!masked[k]) dq_o[8*k+:8] <= mem[coming[0]][8*k+:8];

    if (left != 0) begin
      write_columns(write_bank, write_column);
      left <= left - 1;
      write_column <= {write_column[COLUMN_BITS-1:2], write_column[1:0] + 2'd1};
    end

    case (command)
      ACTIVE: begin
        after_pauses("ACTIVE");
        `REQUIRE(mode_at != 0, "got ACTIVE before MODE")
        `REQUIRE(!is_open[ba], "got ACTIVE for a bank with an open row")
        `REQUIRE(passed(precharged[ba], cfg_precharge_ps), "got ACTIVE too soon after PRECHARGE (tRP)")
        `REQUIRE(passed(activated[ba], cfg_row_cycle_ps),
                 "got ACTIVE too soon after ACTIVE of the same bank (tRC)")
        `REQUIRE(passed(any_activated, cfg_row_to_row_ps),
                 "got ACTIVE too soon after ACTIVE of another bank (tRRD)")
        is_open[ba] <= 1;
        open_row[ba] <= a[ROW_BITS-1:0];
        activated[ba] <= now;
        any_activated <= now;
        read_at[ba] <= 0;
        last_written[ba] <= 0;
      end
      READ, WRITE: begin
        after_pauses(command == READ ? "READ" : "WRITE");
        `REQUIRE(is_open[ba], "got READ or WRITE for a bank without an open row")
        `REQUIRE(passed(activated[ba], cfg_row_to_data_ps),
                 "got READ or WRITE too soon after ACTIVE (tRCD)")
        `REQUIRE(moved_at == 0 || now - moved_at >= BURST,
                 "got READ or WRITE in the middle of another one")
        `REQUIRE(!a[10], "got READ or WRITE with A10, for which the model has no precharge")
        moved_at <= now;
        if (command == READ) begin
          read_at[ba] <= now;
          for (k = 0; k < BURST; k = k + 1)
            coming[latency - 2 + k] <=
              {open_row[ba], ba, a[COLUMN_BITS-1:2], a[1:0] + k[1:0]};
          reading <= (reading >> 1) | (8'hf << (latency - 2));
        end else begin
          write_columns(ba, a[COLUMN_BITS-1:0]);
          left <= BURST - 1;
          write_bank <= ba;
          write_column <= {a[COLUMN_BITS-1:2], a[1:0] + 2'd1};
        end
      end
      PRECHARGE: begin
        after_pauses("PRECHARGE");
        for (k = 0; k < BANKS; k = k + 1)
          if (a[10] || ba == k) begin
            close(k);
            precharged[k] <= now;
          end
        if (a[10]) is_shut <= 1;
      end
      REFRESH: begin
        after_pauses("REFRESH");
        `REQUIRE(is_shut, "got REFRESH before PRECHARGE of all banks")
        `REQUIRE(is_open == 0, "got REFRESH with a row open")
        for (k = 0; k < BANKS; k = k + 1)
          `REQUIRE(passed(precharged[k], cfg_precharge_ps),
                   "got REFRESH too soon after PRECHARGE (tRP)")
        refreshed <= now;
        refreshes <= refreshes + 1;
        refresh_due_ps <= refresh_due_ps + cfg_refresh_interval_ps;
      end
      MODE: begin
        after_pauses("MODE");
        `REQUIRE(is_shut && is_open == 0, "got MODE with a row open")
        `REQUIRE(refreshes >= cfg_init_refreshes, "got MODE before its first REFRESH commands")
        `REQUIRE(a == cfg_mode && ba == 0, "got another MODE than the controller is made for")
        for (k = 0; k < BANKS; k = k + 1)
          `REQUIRE(passed(precharged[k], cfg_precharge_ps), "got MODE too soon after PRECHARGE (tRP)")
        mode_at <= now;
        refresh_due_ps <= now_ps + 2 * cfg_refresh_interval_ps;
      end
      STOP: `REQUIRE(0, "got BURST TERMINATE, which no controller here sends")
      default: ;
    endcase

    // At most one refresh behind: each may be late by one interval.
    if (mode_at != 0) `REQUIRE(now_ps <= refresh_due_ps, "was not refreshed in time (tREFI)")
  end
endmodule

`default_nettype wire
