// One clocked memory behind an AXI4 slave port: the DRAM model of every cycle-accurate simulation.
//
// Accepted unchanged by Verilator and Icarus Verilog. Its timing rules are numbered in
// isa/memory_model.py, which is also where the presets' numbers live; comments here refer to them.
// All configuration comes in on ports, so one compiled simulator serves every preset and fault.
//
// Channel order in every five-wide field: {B, W, AW, R, AR}, AR in the least significant place.

`timescale 1ns / 1ps
`default_nettype none

/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off WIDTHTRUNC */
// The harness fills `mem` with blocking assignments between programs, while no burst is open.
/* verilator lint_off BLKANDNBLK */

module daedal_dram #(
    parameter DATA_BITS = 64,
    parameter ADDR_BITS = 32,
    parameter ID_BITS   = 2,
    parameter WORDS     = 65536,  // of DATA_BITS each; byte address 0 is word 0
    parameter QUEUE_LOG = 6       // 2**QUEUE_LOG bursts of each kind at most
) (
    input  wire                   clk,
    input  wire                   rst,

    input  wire [15:0]            cfg_read_latency,    // AR handshake to first R beat, >= 1
    input  wire [15:0]            cfg_write_latency,   // last W beat to B, >= 1
    input  wire [QUEUE_LOG:0]     cfg_max_reads,
    input  wire [QUEUE_LOG:0]     cfg_max_writes,
    input  wire                   cfg_shared,          // R and W share one beat per cycle
    input  wire [7:0]             cfg_beat_cycles,     // cycles that a beat takes, >= 1
    input  wire [44:0]            cfg_stall,           // nine bits per channel: stall odds of 256
    input  wire [7:0]             cfg_extra_latency,   // 2**n - 1: random extra cycles per burst
    input  wire [63:0]            cfg_seed,            // generator state after reset, not 0

    input  wire [ADDR_BITS-1:0]   fault_first,         // byte addresses [first, last] that fail
    input  wire [ADDR_BITS-1:0]   fault_last,
    input  wire [1:0]             fault_read_resp,     // 0: none; 2: SLVERR; 3: DECERR
    input  wire [1:0]             fault_write_resp,
    input  wire [4:0]             fault_stop_channels, // go silent ...
    input  wire [31:0]            fault_stop_beats,    // ... once this many R and W beats are done

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
    input  wire                   s_wvalid,
    output wire                   s_wready,
    output wire [ID_BITS-1:0]     s_bid,
    output wire [1:0]             s_bresp,
    output wire                   s_bvalid,
    input  wire                   s_bready
);
  localparam QUEUE = 1 << QUEUE_LOG;
  localparam SHIFT = $clog2(DATA_BITS / 8);
  localparam WORD_BITS = ADDR_BITS - SHIFT;
  localparam INDEX_BITS = WORDS > 1 ? $clog2(WORDS) : 1;
  localparam [31:0] POISON = 32'hdeadbeef;

  reg [DATA_BITS-1:0] mem [0:WORDS-1];

  // ---- time and randomness ------------------------------------------------------------------
  reg [63:0] cycle;
  reg [63:0] random;
  reg [31:0] beats;
  wire [63:0] random_a = random ^ (random << 13);
  wire [63:0] random_b = random_a ^ (random_a >> 7);
  wire [63:0] random_next = random_b ^ (random_b << 17);

  wire stopping = beats >= fault_stop_beats;
  wire [4:0] hold;  // a channel neither accepts nor offers anything new in this cycle
  genvar channel;
  generate
    for (channel = 0; channel < 5; channel = channel + 1) begin : g_hold
      assign hold[channel] = {1'b0, random[8*channel+:8]} < cfg_stall[9*channel+:9]
                             || (stopping && fault_stop_channels[channel]);
    end
  endgenerate

  // ---- read side: bursts are served in the order they were accepted (rule 3) ------------------
  reg [WORD_BITS-1:0] read_word  [0:QUEUE-1];
  reg [7:0]           read_len   [0:QUEUE-1];
  reg [ID_BITS-1:0]   read_id    [0:QUEUE-1];
  reg [63:0]          read_ready [0:QUEUE-1];
  reg [QUEUE_LOG:0]   read_head, read_tail;
  reg [8:0]           read_beat;
  reg                 read_offered;  // RVALID was up and not taken: it has to stay (AXI A3.2.1)
  reg [DATA_BITS-1:0] read_held;

  wire [QUEUE_LOG-1:0] read_slot = read_head[QUEUE_LOG-1:0];
  wire [QUEUE_LOG:0]   reads_open = read_tail - read_head;
  wire                 read_any = reads_open != 0;
  wire                 read_due = read_any && cycle >= read_ready[read_slot];
  wire [WORD_BITS-1:0] read_at = read_word[read_slot] + read_beat;
  wire                 read_outside = read_at >= WORDS;
  wire                 read_faulty = fault_read_resp != 0
                                     && read_at >= fault_first[ADDR_BITS-1:SHIFT]
                                     && read_at <= fault_last[ADDR_BITS-1:SHIFT];
  wire [DATA_BITS-1:0] read_now = read_outside ? {DATA_BITS / 32{POISON}}
                                               : mem[read_at[INDEX_BITS-1:0]];

  // ---- write side ---------------------------------------------------------------------------
  reg [WORD_BITS-1:0] write_word [0:QUEUE-1];
  reg [7:0]           write_len  [0:QUEUE-1];
  reg [ID_BITS-1:0]   write_id   [0:QUEUE-1];
  reg [63:0]          ack_ready  [0:QUEUE-1];
  reg [1:0]           ack_resp   [0:QUEUE-1];
  // Pointers into one ring: accepted (tail), data complete (ack_tail), acknowledged (ack_head).
  reg [QUEUE_LOG:0]   write_tail, ack_tail, ack_head;
  reg [8:0]           write_beat;
  reg [1:0]           write_resp;

  wire [QUEUE_LOG-1:0] write_slot = ack_tail[QUEUE_LOG-1:0];
  wire [QUEUE_LOG:0]   writes_open = write_tail - ack_head;
  wire                 write_any = write_tail != ack_tail;
  wire [WORD_BITS-1:0] write_at = write_word[write_slot] + write_beat;
  wire                 write_outside = write_at >= WORDS;
  wire                 write_faulty = fault_write_resp != 0
                                      && write_at >= fault_first[ADDR_BITS-1:SHIFT]
                                      && write_at <= fault_last[ADDR_BITS-1:SHIFT];
  wire [1:0]           beat_resp = write_outside ? 2'b11 : write_faulty ? fault_write_resp : 2'b00;
  wire [1:0]           burst_resp = write_resp != 0 ? write_resp : beat_resp;
  wire                 write_last = write_beat == write_len[write_slot];

  // ---- who gets this cycle's beat (rule 5) ----------------------------------------------------
  reg  turn_is_write;
  wire mid_read = read_beat != 0;
  wire mid_write = write_beat != 0;
  wire write_first = mid_read == mid_write ? turn_is_write : mid_write;
  reg  [7:0] read_rest, write_rest;  // cycles until the next beat may move (rule 8)
  wire write_open = write_any && !hold[3] && write_rest == 0;
  wire write_able = write_open && s_wvalid;
  wire read_yields = cfg_shared && write_able && write_first;

  assign s_rvalid = read_offered || (read_due && !hold[1] && read_rest == 0 && !read_yields);
  assign s_rid = read_id[read_slot];
  assign s_rdata = !s_rvalid ? {DATA_BITS / 32{POISON}} : read_offered ? read_held : read_now;
  assign s_rresp = read_outside ? 2'b11 : read_faulty ? fault_read_resp : 2'b00;
  assign s_rlast = read_beat == read_len[read_slot];
  assign s_arready = reads_open < cfg_max_reads && !hold[0];

  assign s_awready = writes_open < cfg_max_writes && !hold[2];
  assign s_wready = write_open && !(cfg_shared && s_rvalid && s_rready);

  reg    ack_offered;
  wire   [QUEUE_LOG-1:0] ack_slot = ack_head[QUEUE_LOG-1:0];
  assign s_bvalid = ack_offered
                    || (ack_tail != ack_head && cycle >= ack_ready[ack_slot] && !hold[4]);
  assign s_bid = write_id[ack_slot];
  assign s_bresp = ack_resp[ack_slot];

  // ---- state ----------------------------------------------------------------------------------
  wire read_takes = s_rvalid && s_rready;
  wire write_takes = s_wvalid && s_wready;
  integer lane;
  reg [DATA_BITS-1:0] merged;

  always @(posedge clk) begin
    if (rst) begin
      cycle <= 0;
      random <= cfg_seed;
      beats <= 0;
      read_head <= 0;
      read_tail <= 0;
      read_beat <= 0;
      read_offered <= 0;
      write_tail <= 0;
      ack_tail <= 0;
      ack_head <= 0;
      ack_offered <= 0;
      write_beat <= 0;
      write_resp <= 0;
      turn_is_write <= 0;
      read_rest <= 0;
      write_rest <= 0;
    end else begin
      cycle <= cycle + 1;
      random <= random_next;
      beats <= beats + read_takes + write_takes;

      if (s_arvalid && s_arready) begin
        read_word[read_tail[QUEUE_LOG-1:0]] <= s_araddr[ADDR_BITS-1:SHIFT];
        read_len[read_tail[QUEUE_LOG-1:0]] <= s_arlen;
        read_id[read_tail[QUEUE_LOG-1:0]] <= s_arid;
        read_ready[read_tail[QUEUE_LOG-1:0]] <=
            cycle + cfg_read_latency + (random[47:40] & cfg_extra_latency);
        read_tail <= read_tail + 1;
      end
      read_offered <= s_rvalid && !s_rready;
      if (s_rvalid) read_held <= s_rdata;
      if (read_takes) begin
        read_beat <= s_rlast ? 0 : read_beat + 1;
        if (s_rlast) read_head <= read_head + 1;
      end

      if (s_awvalid && s_awready) begin
        write_word[write_tail[QUEUE_LOG-1:0]] <= s_awaddr[ADDR_BITS-1:SHIFT];
        write_len[write_tail[QUEUE_LOG-1:0]] <= s_awlen;
        write_id[write_tail[QUEUE_LOG-1:0]] <= s_awid;
        write_tail <= write_tail + 1;
      end
      if (write_takes) begin
        if (beat_resp == 0) begin
          merged = mem[write_at[INDEX_BITS-1:0]];
          for (lane = 0; lane < DATA_BITS / 8; lane = lane + 1)
            if (s_wstrb[lane]) merged[8*lane+:8] = s_wdata[8*lane+:8];
          mem[write_at[INDEX_BITS-1:0]] <= merged;
        end
        write_beat <= write_last ? 0 : write_beat + 1;
        write_resp <= write_last ? 0 : burst_resp;
        if (write_last) begin
          ack_ready[write_slot] <=
              cycle + cfg_write_latency + (random[55:48] & cfg_extra_latency);
          ack_resp[write_slot] <= burst_resp;
          ack_tail <= ack_tail + 1;
        end
      end
      ack_offered <= s_bvalid && !s_bready;
      if (s_bvalid && s_bready) ack_head <= ack_head + 1;

      if (read_takes || (cfg_shared && write_takes)) read_rest <= cfg_beat_cycles - 1;
      else if (read_rest != 0) read_rest <= read_rest - 1;
      if (write_takes || (cfg_shared && read_takes)) write_rest <= cfg_beat_cycles - 1;
      else if (write_rest != 0) write_rest <= write_rest - 1;

      // The turn passes when a burst ends; a side that was alone keeps nothing.
      if (read_takes && s_rlast) turn_is_write <= 1;
      else if (write_takes && write_last) turn_is_write <= 0;
    end
  end
endmodule

`default_nettype wire
