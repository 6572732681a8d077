// Block RAM and multiplier of a Lattice ECP5, as far as `hw` and Yosys use them.
//
// sim/rtl/netlist/blocks.py places them where a synthesized netlist has a DP16KD or a MULT18X18D.
// Source: Lattice FPGA-TN-02204 (memory usage guide) and FPGA-TN-02205 (sysDSP usage guide).

`default_nettype none

// A block RAM of 2048 units of 9 bits. A port 18 or 36 bits wide takes 2 or 4 units; one of 4, 2 or
// 1 bits takes a part of the lower 8 bits of a unit. Port A 36 bits wide only writes, with DIB as
// its upper half; port B 36 bits wide only reads, with DOA as its lower half.
//
// Where both ports touch a word in one cycle and one of them writes it, the chip promises nothing:
// what is read, and what is stored where both write, comes from a generator of random words here.
module ecp5_dp16kd #(
    parameter WIDTH_A = 18,
    parameter WIDTH_B = 18,
    parameter REGISTER_A = 0,  // a second register behind the output, with an enable of its own
    parameter REGISTER_B = 0,
    parameter WRITEMODE_A = "NORMAL",  // what a port that writes shows: what it showed before,
    parameter WRITEMODE_B = "NORMAL",  // WRITETHROUGH the new word, READBEFOREWRITE the old one
    parameter [2:0] SELECT_A = 0,
    parameter [2:0] SELECT_B = 0,
    parameter [18431:0] CONTENTS = 0
) (
    input wire [31:0] SEED,
    input wire CLK,
    input wire CEA, OCEA, RSTA, WEA, CEB, OCEB, RSTB, WEB,
    input wire [2:0] CSA, CSB,
    input wire [13:0] ADA, ADB,
    input wire [17:0] DIA, DIB,
    output wire [17:0] DOA, DOB
);
  // Bits of an address below the word: those of a wide port enable its units instead.
  function integer below(input integer width);
    below = width == 36 ? 5 : width == 18 ? 4 : width == 9 ? 3 : width == 4 ? 2 : width == 2 ? 1 : 0;
  endfunction
  localparam BELOW_A = below(WIDTH_A);
  localparam BELOW_B = below(WIDTH_B);
  localparam BELOW = BELOW_A > BELOW_B ? BELOW_A : BELOW_B;

  localparam [17:0] MASK_A = 18'h3ffff >> (WIDTH_A < 18 ? 18 - WIDTH_A : 0);
  localparam [35:0] MASK_B = 36'hfffffffff >> 36 - WIDTH_B;

  reg [8:0] units[0:2047];
  integer i;
  initial for (i = 0; i < 2048; i = i + 1) units[i] = CONTENTS[i*9 +: 9];

  reg [31:0] noise;
  initial noise = SEED * 32'h9e3779b1 ^ `ECP5_SEED * 32'h85ebca6b | 1;

  function [31:0] stirred(input [31:0] x);
    reg [31:0] y;
    begin
      y = x ^ x << 13;
      y = y ^ y >> 17;
      stirred = y ^ y << 5;
    end
  endfunction

  function [35:0] word(input [13:0] address, input integer width);
    case (width)
      36: word = {units[{address[13:5], 2'd3}], units[{address[13:5], 2'd2}],
                  units[{address[13:5], 2'd1}], units[{address[13:5], 2'd0}]};
      18: word = {units[{address[13:4], 1'd1}], units[{address[13:4], 1'd0}]};
      9: word = units[address[13:3]];
      4: word = units[address[13:3]][{address[2], 2'd0} +: 4];
      2: word = units[address[13:3]][{address[2:1], 1'd0} +: 2];
      default: word = units[address[13:3]][address[2:0]];
    endcase
  endfunction

  task store(input [13:0] address, input integer width, input [3:0] enable, input [35:0] data);
    case (width)
      36: begin
        if (enable[0]) units[{address[13:5], 2'd0}] = data[8:0];
        if (enable[1]) units[{address[13:5], 2'd1}] = data[17:9];
        if (enable[2]) units[{address[13:5], 2'd2}] = data[26:18];
        if (enable[3]) units[{address[13:5], 2'd3}] = data[35:27];
      end
      18: begin
        if (enable[0]) units[{address[13:4], 1'd0}] = data[8:0];
        if (enable[1]) units[{address[13:4], 1'd1}] = data[17:9];
      end
      9: if (enable[0]) units[address[13:3]] = data[8:0];
      4: if (enable[0]) units[address[13:3]][{address[2], 2'd0} +: 4] = data[3:0];
      2: if (enable[0]) units[address[13:3]][{address[2:1], 1'd0} +: 2] = data[1:0];
      default: if (enable[0]) units[address[13:3]][address[2:0]] = data[0];
    endcase
  endtask

  reg [17:0] shown_a = 0, kept_a = 0;
  reg [35:0] shown_b = 0, kept_b = 0;
  reg on_a, on_b, meet;
  reg [3:0] enable_a, enable_b;
  reg [35:0] old_a, old_b;

  always @(posedge CLK) begin
    on_a = CEA && CSA == SELECT_A;
    on_b = CEB && CSB == SELECT_B;
    enable_a = {4{on_a && WEA && !RSTA}} & (WIDTH_A == 36 ? ADA[3:0] : WIDTH_A == 18 ? ADA[1:0] : 4'd1);
    enable_b = {4{on_b && WEB && !RSTB}} & (WIDTH_B == 18 ? ADB[1:0] : 4'd1);
    meet = on_a && on_b && ADA >> BELOW == ADB >> BELOW && (enable_a != 0 || enable_b != 0);
    if (OCEA) kept_a <= shown_a;
    if (OCEB) kept_b <= shown_b;
    old_a = word(ADA, WIDTH_A);
    old_b = word(ADB, WIDTH_B);
    if (enable_a != 0) store(ADA, WIDTH_A, enable_a, {DIB, DIA});
    if (enable_b != 0) store(ADB, WIDTH_B, enable_b, {18'd0, DIB});
    if (meet) begin
      noise = stirred(noise);
      if (enable_a != 0 && enable_b != 0) begin
        store(ADA, WIDTH_A, 4'hf, {noise, noise[31:28]});
        store(ADB, WIDTH_B, 4'hf, {noise[15:0], noise[31:12]});
      end
    end
    if (on_a) begin
      if (meet && (!WEA || enable_b != 0)) shown_a <= noise[17:0] & MASK_A;
      else if (!WEA || WRITEMODE_A == "READBEFOREWRITE") shown_a <= old_a[17:0];
      else if (WRITEMODE_A == "WRITETHROUGH") shown_a <= word(ADA, WIDTH_A);
    end
    if (on_b) begin
      if (meet && (!WEB || enable_a != 0)) shown_b <= {noise[3:0], noise} & MASK_B;
      else if (!WEB || WRITEMODE_B == "READBEFOREWRITE") shown_b <= old_b;
      else if (WRITEMODE_B == "WRITETHROUGH") shown_b <= word(ADB, WIDTH_B);
    end
    if (RSTA) {shown_a, kept_a} <= 0;
    if (RSTB) {shown_b, kept_b} <= 0;
  end

  wire [17:0] out_a = REGISTER_A ? kept_a : shown_a;
  wire [35:0] out_b = REGISTER_B ? kept_b : shown_b;
  assign DOA = WIDTH_B == 36 ? out_b[17:0] : out_a;
  assign DOB = WIDTH_B == 36 ? out_b[35:18] : out_b[17:0];
endmodule

// A multiplier with registers where they are asked for: operands, inside (M), product.
module ecp5_mult18x18d #(
    parameter SIGNED_A = 0,
    parameter SIGNED_B = 0,
    parameter REGISTER_A = 0,
    parameter REGISTER_B = 0,
    parameter REGISTER_M = 0,
    parameter REGISTER_P = 0
) (
    input wire CLK,
    input wire CEA, RSTA, CEB, RSTB, CEM, RSTM, CEP, RSTP,
    input wire [17:0] A, B,
    output wire [35:0] P
);
  reg [17:0] kept_a = 0, kept_b = 0;
  reg [35:0] kept_m = 0, kept_p = 0;
  wire [17:0] a = REGISTER_A ? kept_a : A;
  wire [17:0] b = REGISTER_B ? kept_b : B;
  wire signed [18:0] wide_a = {SIGNED_A ? a[17] : 1'b0, a};
  wire signed [18:0] wide_b = {SIGNED_B ? b[17] : 1'b0, b};
  wire signed [37:0] product = wide_a * wide_b;
  wire [35:0] m = REGISTER_M ? kept_m : product[35:0];
  assign P = REGISTER_P ? kept_p : m;
  always @(posedge CLK) begin
    if (RSTA) kept_a <= 0; else if (CEA) kept_a <= A;
    if (RSTB) kept_b <= 0; else if (CEB) kept_b <= B;
    if (RSTM) kept_m <= 0; else if (CEM) kept_m <= product[35:0];
    if (RSTP) kept_p <= 0; else if (CEP) kept_p <= m;
  end
endmodule

`default_nettype wire
