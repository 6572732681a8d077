// A stand-in accelerator with the real one's pins: copies memory by AXI bursts, and can keep a
// multiplier array busy, so that the bench can be tested and its speed measured by itself.
//
// Control: 0x00 start (bit 0); 0x04 error seen; 0x08 interrupt, any write clears; 0x0c source;
// 0x10 destination; 0x14 bursts; 0x18 beats per burst; 0x1c products; 0x20 checksum;
// 0x24 break a rule (1: a burst length of 40, 2: WLAST a beat early).

`timescale 1ns / 1ps

module daedal_top #(
    parameter DATA_BITS = 64,
    parameter ADDR_BITS = 32,
    parameter BLOCK     = 0
) (
    input ap_clk, input ap_rst_n, output reg interrupt,
    output reg [1:0] m_axi_gmem_awid, output [ADDR_BITS-1:0] m_axi_gmem_awaddr,
    output [7:0] m_axi_gmem_awlen, output [2:0] m_axi_gmem_awsize,
    output [1:0] m_axi_gmem_awburst, output reg m_axi_gmem_awvalid, input m_axi_gmem_awready,
    output [3:0] m_axi_gmem_awcache,
    output [DATA_BITS-1:0] m_axi_gmem_wdata, output [DATA_BITS/8-1:0] m_axi_gmem_wstrb,
    output m_axi_gmem_wlast, output m_axi_gmem_wvalid, input m_axi_gmem_wready,
    input [1:0] m_axi_gmem_bid, input [1:0] m_axi_gmem_bresp,
    input m_axi_gmem_bvalid, output m_axi_gmem_bready,
    output [1:0] m_axi_gmem_arid, output [ADDR_BITS-1:0] m_axi_gmem_araddr,
    output [7:0] m_axi_gmem_arlen, output [2:0] m_axi_gmem_arsize,
    output [1:0] m_axi_gmem_arburst, output reg m_axi_gmem_arvalid, input m_axi_gmem_arready,
    input [1:0] m_axi_gmem_rid, input [DATA_BITS-1:0] m_axi_gmem_rdata,
    input [1:0] m_axi_gmem_rresp, input m_axi_gmem_rlast, input m_axi_gmem_rvalid,
    output m_axi_gmem_rready,
    input [11:0] s_axi_control_awaddr, input s_axi_control_awvalid, output s_axi_control_awready,
    input [2:0] s_axi_control_awprot,
    input [31:0] s_axi_control_wdata, input [3:0] s_axi_control_wstrb,
    input s_axi_control_wvalid, output s_axi_control_wready,
    output [1:0] s_axi_control_bresp, output reg s_axi_control_bvalid, input s_axi_control_bready,
    input [11:0] s_axi_control_araddr, input s_axi_control_arvalid, output s_axi_control_arready,
    output reg [31:0] s_axi_control_rdata, output [1:0] s_axi_control_rresp,
    output reg s_axi_control_rvalid, input s_axi_control_rready
);
  localparam SHIFT = $clog2(DATA_BITS / 8);
  reg [31:0] source, target, bursts, beats, products, breakage;
  reg failed, busy;
  wire [31:0] checksum;

  // ---- control ----
  wire control_write = s_axi_control_awvalid && s_axi_control_wvalid && !s_axi_control_bvalid;
  wire start = control_write && s_axi_control_awaddr == 0 && s_axi_control_wdata[0];
  assign s_axi_control_awready = control_write;
  assign s_axi_control_wready = control_write;
  assign s_axi_control_bresp = s_axi_control_awaddr > 12'h7f ? 2'b10 : 2'b00;
  assign s_axi_control_arready = !s_axi_control_rvalid;
  assign s_axi_control_rresp = 0;
  always @(posedge ap_clk) begin
    if (s_axi_control_bready) s_axi_control_bvalid <= 0;
    if (s_axi_control_rready) s_axi_control_rvalid <= 0;
    if (control_write) begin
      s_axi_control_bvalid <= 1;
      case (s_axi_control_awaddr)
        12'h00c: source <= s_axi_control_wdata;
        12'h010: target <= s_axi_control_wdata;
        12'h014: bursts <= s_axi_control_wdata;
        12'h018: beats <= s_axi_control_wdata;
        12'h01c: products <= s_axi_control_wdata;
        12'h024: breakage <= s_axi_control_wdata;
        default: ;
      endcase
    end
    if (s_axi_control_arvalid && s_axi_control_arready) begin
      s_axi_control_rvalid <= 1;
      case (s_axi_control_araddr)
        12'h000: s_axi_control_rdata <= {31'b0, busy};
        12'h004: s_axi_control_rdata <= {31'b0, failed};
        12'h00c: s_axi_control_rdata <= source;
        12'h020: s_axi_control_rdata <= checksum;
        default: s_axi_control_rdata <= 0;
      endcase
    end
    if (!ap_rst_n) begin
      s_axi_control_bvalid <= 0;
      s_axi_control_rvalid <= 0;
      breakage <= 0;
    end
  end

  // ---- copy: up to eight bursts of room, so that reads run ahead of writes ----
  reg [DATA_BITS-1:0] fifo [0:255];
  reg [8:0] fifo_in, fifo_out;
  reg [31:0] reads_asked, reads_done, writes_asked, writes_sent, writes_done, beat;
  wire [8:0] filled = fifo_in - fifo_out;
  wire room = (reads_asked + 1) * beats - (writes_sent * beats + beat) <= 256;
  assign m_axi_gmem_arid = 1;
  assign m_axi_gmem_araddr = source + ((reads_asked * beats) << SHIFT);
  assign m_axi_gmem_awaddr = target + ((writes_asked * beats) << SHIFT);
  assign m_axi_gmem_arlen = breakage == 1 ? 39 : beats - 1;
  assign m_axi_gmem_awlen = beats - 1;
  assign m_axi_gmem_arsize = SHIFT;
  assign m_axi_gmem_awsize = SHIFT;
  assign m_axi_gmem_arburst = 1;
  assign m_axi_gmem_awburst = 1;
  assign m_axi_gmem_awcache = 3;
  assign m_axi_gmem_rready = 1;
  assign m_axi_gmem_bready = 1;
  assign m_axi_gmem_wvalid = busy && filled != 0 && writes_sent < writes_asked;
  assign m_axi_gmem_wdata = fifo[fifo_out[7:0]];
  assign m_axi_gmem_wstrb = {DATA_BITS / 8{1'b1}};
  assign m_axi_gmem_wlast = beat == beats - 1 - (breakage == 2);
  wire array_done;

  always @(posedge ap_clk) begin
    if (!m_axi_gmem_arvalid && busy && reads_asked < bursts && room) m_axi_gmem_arvalid <= 1;
    if (m_axi_gmem_arvalid && m_axi_gmem_arready) begin
      m_axi_gmem_arvalid <= 0;
      reads_asked <= reads_asked + 1;
    end
    if (m_axi_gmem_rvalid && m_axi_gmem_rready) begin
      fifo[fifo_in[7:0]] <= m_axi_gmem_rdata;
      fifo_in <= fifo_in + 1;
      if (m_axi_gmem_rresp != 0) failed <= 1;
    end
    if (!m_axi_gmem_awvalid && busy && writes_asked < bursts) m_axi_gmem_awvalid <= 1;
    if (m_axi_gmem_awvalid && m_axi_gmem_awready) begin
      m_axi_gmem_awvalid <= 0;
      writes_asked <= writes_asked + 1;
    end
    if (m_axi_gmem_wvalid && m_axi_gmem_wready) begin
      fifo_out <= fifo_out + 1;
      beat <= beat == beats - 1 ? 0 : beat + 1;
      if (beat == beats - 1) writes_sent <= writes_sent + 1;
    end
    if (m_axi_gmem_bvalid && m_axi_gmem_bready) begin
      writes_done <= writes_done + 1;
      if (m_axi_gmem_bresp != 0) failed <= 1;
    end
    if (busy && writes_done == bursts && array_done) begin
      busy <= 0;
      interrupt <= 1;
    end
    if (control_write && s_axi_control_awaddr == 12'h008) interrupt <= 0;
    if (start) begin
      busy <= 1;
      failed <= 0;
      fifo_in <= 0;
      fifo_out <= 0;
      beat <= 0;
      reads_asked <= 0;
      writes_asked <= 0;
      writes_sent <= 0;
      writes_done <= 0;
    end
    if (!ap_rst_n) begin
      m_axi_gmem_awid <= 0;
      m_axi_gmem_arvalid <= 0;
      m_axi_gmem_awvalid <= 0;
      busy <= 0;
      failed <= 0;
      interrupt <= 0;
    end
  end

  generate
    if (BLOCK > 0) begin : g_array
      standin_array #(.BLOCK(BLOCK)) array (
          .clk(ap_clk), .start(start), .products(products),
          .feed(m_axi_gmem_rdata[63:0]), .feed_valid(m_axi_gmem_rvalid),
          .done(array_done), .checksum(checksum)
      );
    end else begin : g_none
      assign array_done = 1;
      assign checksum = 0;
    end
  endgenerate
endmodule

// BLOCK x BLOCK int8 products per cycle into int32 accumulators in a memory, as a GEMM core does it.
module standin_array #(parameter BLOCK = 16) (
    input clk, input start, input [31:0] products,
    input [63:0] feed, input feed_valid,
    output done, output reg [31:0] checksum
);
  reg [8*BLOCK-1:0] inputs [0:2047];
  reg [8*BLOCK*BLOCK-1:0] weights [0:1023];
  reg [32*BLOCK-1:0] sums [0:2047];
  reg [31:0] left, count;
  reg [8*BLOCK-1:0] x;
  reg [8*BLOCK*BLOCK-1:0] w;
  reg [32*BLOCK-1:0] product, old, sum;
  reg [10:0] at1, at2, at3;
  reg valid1, valid2, valid3;
  integer row, column;
  reg signed [31:0] total;
  assign done = left == 0 && !valid1 && !valid2 && !valid3;

  always @(posedge clk) begin
    if (feed_valid) inputs[count[10:0]] <= {BLOCK / 8{feed}};
    if (feed_valid) weights[count[9:0]] <= {BLOCK * BLOCK / 8{feed ^ {2{count}}}};
    count <= count + 1;
    if (left != 0) left <= left - 1;
    valid1 <= left != 0;
    at1 <= left[10:0];
    x <= inputs[left[10:0]];
    w <= weights[left[9:0]];
    valid2 <= valid1;
    at2 <= at1;
    old <= sums[at1];
    for (row = 0; row < BLOCK; row = row + 1) begin
      total = 0;
      for (column = 0; column < BLOCK; column = column + 1)
        total = total + $signed(x[8*column+:8]) * $signed(w[8*(BLOCK*row+column)+:8]);
      product[32*row+:32] <= total;
    end
    valid3 <= valid2;
    at3 <= at2;
    for (row = 0; row < BLOCK; row = row + 1) sum[32*row+:32] <= product[32*row+:32] + old[32*row+:32];
    if (valid3) begin
      sums[at3] <= sum;
      checksum <= checksum ^ sum[31:0] ^ {sum[62:32], sum[63]};
    end
    if (start) begin
      left <= products;
      count <= 0;
      checksum <= 0;
    end
  end
endmodule
