// Top of a whole-program simulation: clock, reset, the accelerator, its memory, a control-bus
// master, and a loader, all in HDL, so that Python wakes only when a command completes.
//
// Command protocol (sim/rtl/bench.py is the other side): the host sets `op` and its operands and
// flips `go`; the harness carries the command out and flips `done`. Every register the host
// writes is only written by the host, and the other way round.

`timescale 1ns / 1ps
`default_nettype none

/* verilator lint_off BLKSEQ */
/* verilator lint_off BLKANDNBLK */
/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off WIDTHTRUNC */

module harness #(
    parameter DATA_BITS = 64,
    parameter ADDR_BITS = 32,
    parameter WORDS     = 65536
)
`ifdef DAEDAL_CLOCK_PORT
// a C++ main loop is the clock: sim/rtl/hdl/native.cpp
`ifdef DAEDAL_SDRAM
(input wire ap_clk, input wire pins_clk)  // the second has twice the frequency, in phase
`else
(input wire ap_clk)
`endif
`endif
;
  localparam ID_BITS = 1;
  localparam CONTROL_BITS = 12;
  localparam CONTROL_PATIENCE = 10000;  // cycles until a silent control bus is given up
  localparam RESET_CYCLES = 16;

  localparam OP_RESET = 1, OP_WRITE = 2, OP_READ = 3, OP_START = 4, OP_WAIT = 5;
  localparam OP_LOAD = 6, OP_DUMP = 7, OP_FILL = 8, OP_BREAK = 9;
  localparam STATUS_OK = 0, STATUS_RUNNING = 1, STATUS_TIMEOUT = 2, STATUS_SILENT = 3;
  localparam STATUS_BUS_ERROR = 4, STATUS_FILE = 5;

  // ---- host -> harness --------------------------------------------------------------------------
  reg        go         /* verilator public_flat_rw */ = 0;
  reg [3:0]  op         /* verilator public_flat_rw */ = 0;
  reg [31:0] op_address /* verilator public_flat_rw */ = 0;  // control byte address, or memory word
  reg [31:0] op_data    /* verilator public_flat_rw */ = 0;  // control data, fill pattern, or for
                                                             // BREAK 1: the memory keeps its bursts
  reg [31:0] op_count   /* verilator public_flat_rw */ = 0;  // memory words, or cycles of a BREAK
  reg [63:0] op_limit   /* verilator public_flat_rw */ = 0;  // cycles since the start write
  reg [63:0] op_pause   /* verilator public_flat_rw */ = 0;  // WAIT reports RUNNING at this cycle
  reg [63:0] wave_begin /* verilator public_flat_rw */ = 0;  // dump cycles [begin, end)
  reg [63:0] wave_end   /* verilator public_flat_rw */ = 0;

  reg [15:0] cfg_read_latency    /* verilator public_flat_rw */ = 1;
  reg [15:0] cfg_write_latency   /* verilator public_flat_rw */ = 1;
  reg [6:0]  cfg_max_reads       /* verilator public_flat_rw */ = 16;
  reg [6:0]  cfg_max_writes      /* verilator public_flat_rw */ = 16;
  reg        cfg_shared          /* verilator public_flat_rw */ = 0;
  reg [7:0]  cfg_beat_cycles     /* verilator public_flat_rw */ = 1;
  reg [44:0] cfg_stall           /* verilator public_flat_rw */ = 0;
  reg [7:0]  cfg_extra_latency   /* verilator public_flat_rw */ = 0;
  reg [63:0] cfg_seed            /* verilator public_flat_rw */ = 1;
  reg [31:0] cfg_phase           /* verilator public_flat_rw */ = 0;
  reg [63:0] fault_first         /* verilator public_flat_rw */ = 0;
  reg [63:0] fault_last          /* verilator public_flat_rw */ = 0;
  reg [1:0]  fault_read_resp     /* verilator public_flat_rw */ = 0;
  reg [1:0]  fault_write_resp    /* verilator public_flat_rw */ = 0;
  reg [4:0]  fault_stop_channels /* verilator public_flat_rw */ = 0;
  reg [31:0] fault_stop_beats    /* verilator public_flat_rw */ = 0;

  // ---- harness -> host --------------------------------------------------------------------------
  reg        done       /* verilator public_flat_rw */ = 0;
  reg [3:0]  status     /* verilator public_flat_rw */ = 0;
  reg [31:0] result     /* verilator public_flat_rw */ = 0;  // control read data
  reg [63:0] run_cycles /* verilator public_flat_rw */ = 0;  // start write to interrupt
  reg [7:0]  violation  /* verilator public_flat_rw */ = 0;  // first AXI rule broken since reset
  // Bursts that the memory had open when WAIT ended: reads, and writes before and after their last W.
  reg [6:0]  open_reads      /* verilator public_flat_rw */ = 0;
  reg [6:0]  open_unwritten  /* verilator public_flat_rw */ = 0;
  reg [6:0]  open_unanswered /* verilator public_flat_rw */ = 0;

  // ---- clock and reset --------------------------------------------------------------------------
`ifndef DAEDAL_CLOCK_PORT
  reg ap_clk = 0;
  always #5 ap_clk = ~ap_clk;
`endif
  reg ap_rst_n = 0;
  reg memory_rst_n = 0;

  // Copies, one cycle late: what the host can write may change at any moment to a simulator, which
  // then works out all that hangs on it once more at every edge. Verilator lost a tenth by that.
  reg [15:0] set_read_latency = 1;
  reg [15:0] set_write_latency = 1;
  reg [6:0]  set_max_reads = 16;
  reg [6:0]  set_max_writes = 16;
  reg        set_shared = 0;
  reg [7:0]  set_beat_cycles = 1;
  reg [44:0] set_stall = 0;
  reg [7:0]  set_extra_latency = 0;
  reg [63:0] set_seed = 1;
  reg [63:0] set_fault_first = 0;
  reg [63:0] set_fault_last = 0;
  reg [1:0]  set_fault_read_resp = 0;
  reg [1:0]  set_fault_write_resp = 0;
  reg [4:0]  set_fault_stop_channels = 0;
  reg [31:0] set_fault_stop_beats = 0;
  always @(posedge ap_clk) begin
    set_read_latency <= cfg_read_latency;
    set_write_latency <= cfg_write_latency;
    set_max_reads <= cfg_max_reads;
    set_max_writes <= cfg_max_writes;
    set_shared <= cfg_shared;
    set_beat_cycles <= cfg_beat_cycles;
    set_stall <= cfg_stall;
    set_extra_latency <= cfg_extra_latency;
    set_seed <= cfg_seed;
    set_fault_first <= fault_first;
    set_fault_last <= fault_last;
    set_fault_read_resp <= fault_read_resp;
    set_fault_write_resp <= fault_write_resp;
    set_fault_stop_channels <= fault_stop_channels;
    set_fault_stop_beats <= fault_stop_beats;
  end

  // ---- the accelerator and its memory -------------------------------------------------------------
  wire interrupt;
  wire [ID_BITS-1:0] awid, bid, arid, rid;
  wire [ADDR_BITS-1:0] awaddr, araddr;
  wire [7:0] awlen, arlen;
  wire [2:0] awsize, arsize;
  wire [1:0] awburst, bresp, arburst, rresp;
  wire [DATA_BITS-1:0] wdata, rdata;
  wire [DATA_BITS/8-1:0] wstrb;
  wire awvalid, awready, wlast, wvalid, wready, bvalid, bready;
  wire arvalid, arready, rlast, rvalid, rready;

  reg  [CONTROL_BITS-1:0] control_address = 0;
  reg  [31:0] control_data = 0;
  reg  control_awvalid = 0, control_wvalid = 0, control_arvalid = 0, control_ready = 0;
  wire control_awready, control_wready, control_bvalid, control_arready, control_rvalid;
  wire [1:0] control_bresp, control_rresp;
  wire [31:0] control_rdata;

  daedal_top dut (
      .ap_clk(ap_clk), .ap_rst_n(ap_rst_n), .interrupt(interrupt),
      .m_axi_gmem_awid(awid), .m_axi_gmem_awaddr(awaddr), .m_axi_gmem_awlen(awlen),
      .m_axi_gmem_awsize(awsize), .m_axi_gmem_awburst(awburst),
      .m_axi_gmem_awvalid(awvalid), .m_axi_gmem_awready(awready),
      .m_axi_gmem_wdata(wdata), .m_axi_gmem_wstrb(wstrb), .m_axi_gmem_wlast(wlast),
      .m_axi_gmem_wvalid(wvalid), .m_axi_gmem_wready(wready),
      .m_axi_gmem_bid(bid), .m_axi_gmem_bresp(bresp),
      .m_axi_gmem_bvalid(bvalid), .m_axi_gmem_bready(bready),
      .m_axi_gmem_arid(arid), .m_axi_gmem_araddr(araddr), .m_axi_gmem_arlen(arlen),
      .m_axi_gmem_arsize(arsize), .m_axi_gmem_arburst(arburst),
      .m_axi_gmem_arvalid(arvalid), .m_axi_gmem_arready(arready),
      .m_axi_gmem_rid(rid), .m_axi_gmem_rdata(rdata), .m_axi_gmem_rresp(rresp),
      .m_axi_gmem_rlast(rlast), .m_axi_gmem_rvalid(rvalid), .m_axi_gmem_rready(rready),
      .s_axi_control_awaddr(control_address),
      .s_axi_control_awvalid(control_awvalid), .s_axi_control_awready(control_awready),
      .s_axi_control_wdata(control_data), .s_axi_control_wstrb(4'hf),
      .s_axi_control_wvalid(control_wvalid), .s_axi_control_wready(control_wready),
      .s_axi_control_bresp(control_bresp),
      .s_axi_control_bvalid(control_bvalid), .s_axi_control_bready(control_ready),
      .s_axi_control_araddr(control_address),
      .s_axi_control_arvalid(control_arvalid), .s_axi_control_arready(control_arready),
      .s_axi_control_rdata(control_rdata), .s_axi_control_rresp(control_rresp),
      .s_axi_control_rvalid(control_rvalid), .s_axi_control_rready(control_ready)
  );

`ifdef DAEDAL_SDRAM
  wire may_start;
  wire starts;
  daedal_sdram #(.DATA_BITS(DATA_BITS), .ADDR_BITS(ADDR_BITS), .ID_BITS(ID_BITS)) dram (
      .clk(ap_clk), .pins_clk(pins_clk), .rst(!memory_rst_n),
      .cfg_phase(cfg_phase), .may_start(may_start), .starts(starts), .s_wlast(wlast),
`else
  daedal_dram #(
      .DATA_BITS(DATA_BITS), .ADDR_BITS(ADDR_BITS), .ID_BITS(ID_BITS), .WORDS(WORDS)
  ) dram (
      .clk(ap_clk), .rst(!memory_rst_n),
      .cfg_read_latency(set_read_latency), .cfg_write_latency(set_write_latency),
      .cfg_max_reads(set_max_reads), .cfg_max_writes(set_max_writes),
      .cfg_shared(set_shared), .cfg_beat_cycles(set_beat_cycles), .cfg_stall(set_stall),
      .cfg_extra_latency(set_extra_latency), .cfg_seed(set_seed),
      .fault_first(set_fault_first[ADDR_BITS-1:0]), .fault_last(set_fault_last[ADDR_BITS-1:0]),
      .fault_read_resp(set_fault_read_resp), .fault_write_resp(set_fault_write_resp),
      .fault_stop_channels(set_fault_stop_channels), .fault_stop_beats(set_fault_stop_beats),
`endif
      .s_arid(arid), .s_araddr(araddr), .s_arlen(arlen), .s_arvalid(arvalid), .s_arready(arready),
      .s_rid(rid), .s_rdata(rdata), .s_rresp(rresp), .s_rlast(rlast), .s_rvalid(rvalid),
      .s_rready(rready),
      .s_awid(awid), .s_awaddr(awaddr), .s_awlen(awlen), .s_awvalid(awvalid), .s_awready(awready),
      .s_wdata(wdata), .s_wstrb(wstrb), .s_wvalid(wvalid), .s_wready(wready),
      .s_bid(bid), .s_bresp(bresp), .s_bvalid(bvalid), .s_bready(bready)
  );

  wire [7:0] broken_rule;
  daedal_axi_rules #(.DATA_BITS(DATA_BITS), .ADDR_BITS(ADDR_BITS), .ID_BITS(ID_BITS)) rules (
      .clk(ap_clk), .rst(!ap_rst_n), .broken_rule(broken_rule),
      .arid(arid), .araddr(araddr), .arlen(arlen), .arsize(arsize), .arburst(arburst),
      .arvalid(arvalid), .arready(arready),
      .awid(awid), .awaddr(awaddr), .awlen(awlen), .awsize(awsize), .awburst(awburst),
      .awvalid(awvalid), .awready(awready),
      .wdata(wdata), .wstrb(wstrb), .wlast(wlast), .wvalid(wvalid), .wready(wready)
  );
  always @(posedge ap_clk)
    if (!ap_rst_n) violation <= 0;
    else if (violation == 0) violation <= broken_rule;

  // ---- files: the host orders its image and its dumps the way it orders its commands -------------
  reg [8*4096-1:0] image_name, dump_name;
  integer image_file, dump_file, read_bytes, index;
  reg [DATA_BITS-1:0] word;
  initial begin
    image_file = 0;
    dump_file = 0;
    if ($value$plusargs("image=%s", image_name)) image_file = $fopen(image_name, "rb");
    if ($value$plusargs("dump=%s", dump_name)) dump_file = $fopen(dump_name, "wb");
  end

  // ---- commands ------------------------------------------------------------------------------------
  localparam IDLE = 0, RESETTING = 1, WRITING = 2, READING = 3, WAITING = 4, PHASING = 5;
  reg [2:0]  state = IDLE;
  reg        seen = 0;         // the value of `go` last acted on
  reg        started = 0;      // the start write was accepted and its interrupt is awaited
  reg        start_write = 0;  // the write under way is the start write
  reg        interrupt_was = 0;
  reg        fired = 0;
  reg [15:0] patience = 0;
  reg [15:0] reset_cycles = RESET_CYCLES;

  wire address_taken = !control_awvalid || control_awready;
  wire data_taken = !control_wvalid || control_wready;
`ifdef DAEDAL_SDRAM
  assign starts = state == WRITING && start_write && address_taken && data_taken;
`endif

  // Cycles from the edge that accepts the start write to the edge that sees the interrupt rise.
  always @(posedge ap_clk) begin
    interrupt_was <= interrupt;
    if (state == RESETTING) begin
      started <= 0;
      fired <= 0;
    end else if (state == WRITING && start_write && address_taken && data_taken) begin
      started <= 1;
      fired <= 0;
      run_cycles <= 0;
      start_write <= 0;
    end else if (started && !fired) begin
      run_cycles <= run_cycles + 1;
      if (interrupt && !interrupt_was) fired <= 1;
    end
    if (seen != go && state == IDLE && op == OP_START) start_write <= 1;
  end

  always @(posedge ap_clk) begin
    case (state)
      IDLE: if (seen != go) begin
        seen <= go;
        status <= STATUS_OK;
        patience <= 0;
        case (op)
          OP_RESET, OP_BREAK: begin  // a BREAK is a reset in the middle of a run
            ap_rst_n <= 0;
            memory_rst_n <= op == OP_BREAK && op_data[0];
            reset_cycles <= op == OP_BREAK ? op_count[15:0] : RESET_CYCLES;
            state <= RESETTING;
          end
`ifdef DAEDAL_SDRAM
          OP_START: state <= PHASING;
          OP_WRITE: begin
`else
          OP_WRITE, OP_START: begin
`endif
            control_address <= op_address[CONTROL_BITS-1:0];
            control_data <= op_data;
            control_awvalid <= 1;
            control_wvalid <= 1;
            control_ready <= 1;
            state <= WRITING;
          end
          OP_READ: begin
            control_address <= op_address[CONTROL_BITS-1:0];
            control_arvalid <= 1;
            control_ready <= 1;
            state <= READING;
          end
          OP_WAIT: state <= WAITING;
`ifdef DAEDAL_SDRAM
          OP_FILL: done <= ~done;  // of no word: only the native simulator has this memory
`else
          OP_LOAD: begin
            // $fread puts the first byte in the most significant place: the host wrote it there.
            read_bytes = $fread(dram.mem, image_file, op_address, op_count);
            if (read_bytes != op_count * (DATA_BITS / 8)) status <= STATUS_FILE;
            done <= ~done;
          end
          OP_FILL: begin
            for (index = op_address; index < op_address + op_count; index = index + 1)
              dram.mem[index] = {DATA_BITS / 32{op_data}};
            done <= ~done;
          end
          OP_DUMP: begin
            for (index = op_address; index < op_address + op_count; index = index + 1) begin
              word = dram.mem[index];
              $fwrite(dump_file, "%u", word);
            end
            $fflush(dump_file);
            done <= ~done;
          end
`endif
          default: begin
            status <= STATUS_FILE;
            done <= ~done;
          end
        endcase
      end

`ifdef DAEDAL_SDRAM
      PHASING: if (may_start) begin
        control_address <= op_address[CONTROL_BITS-1:0];
        control_data <= op_data;
        control_awvalid <= 1;
        control_wvalid <= 1;
        control_ready <= 1;
        state <= WRITING;
      end
`endif

      RESETTING: begin
        patience <= patience + 1;
        control_awvalid <= 0;
        control_wvalid <= 0;
        control_arvalid <= 0;
        control_ready <= 0;
        if (patience == reset_cycles - 1) begin
          ap_rst_n <= 1;
          memory_rst_n <= 1;
        end
        if (patience == reset_cycles) begin
          done <= ~done;
          state <= IDLE;
        end
      end

      WRITING: begin
        patience <= patience + 1;
        if (control_awready) control_awvalid <= 0;
        if (control_wready) control_wvalid <= 0;
        if (control_bvalid || patience == CONTROL_PATIENCE) begin
          if (!control_bvalid) status <= STATUS_SILENT;
          else if (control_bresp != 0) status <= STATUS_BUS_ERROR;
          control_awvalid <= 0;
          control_wvalid <= 0;
          control_ready <= 0;
          done <= ~done;
          state <= IDLE;
        end
      end

      READING: begin
        patience <= patience + 1;
        if (control_arready) control_arvalid <= 0;
        if (control_rvalid || patience == CONTROL_PATIENCE) begin
          if (!control_rvalid) status <= STATUS_SILENT;
          else if (control_rresp != 0) status <= STATUS_BUS_ERROR;
          result <= control_rdata;
          control_arvalid <= 0;
          control_ready <= 0;
          done <= ~done;
          state <= IDLE;
        end
      end

      WAITING: if (fired || run_cycles >= op_limit || run_cycles >= op_pause) begin
        if (!fired) status <= run_cycles >= op_limit ? STATUS_TIMEOUT : STATUS_RUNNING;
        open_reads <= dram.read_tail - dram.read_head;
        open_unwritten <= dram.write_tail - dram.ack_tail;
        open_unanswered <= dram.ack_tail - dram.ack_head;
        done <= ~done;
        state <= IDLE;
      end

      default: state <= IDLE;
    endcase
  end

`ifdef DAEDAL_OBSERVE
  daedal_observer observer (
      .clk(ap_clk), .rst_n(ap_rst_n), .done(done), .cycle(run_cycles[31:0]), .observe(dut.observe),
      .awvalid(awvalid), .awready(awready), .wvalid(wvalid), .wready(wready),
      .awid(awid), .awlen(awlen), .awaddr(awaddr), .wstrb(wstrb), .wdata(wdata)
  );
`endif

  // ---- waveforms -----------------------------------------------------------------------------------
`ifdef DAEDAL_WAVES
  reg [8*4096-1:0] wave_name;
  reg waving = 0;
  always @(posedge ap_clk) begin
    if (!waving && started && run_cycles >= wave_begin && run_cycles < wave_end) begin
      if ($value$plusargs("wave=%s", wave_name)) $dumpfile(wave_name);
      $dumpvars(0, harness);
      waving <= 1;
    end
    if (waving && run_cycles >= wave_end) begin
`ifdef VERILATOR
      $c("vlSymsp->_traceDumpClose();");
`else
      $dumpoff;
`endif
      waving <= 0;
    end
  end
`endif
endmodule

`default_nettype wire
