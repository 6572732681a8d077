// The ECP5's cells at the pins of an SDRAM, for simulations without delays.
//
// Sources: Lattice FPGA-TN-02032 (sysI/O) and FPGA-TN-02035 (double data rate registers).

`timescale 1ns / 1ps

module OFS1P3DX (
    input  D,
    input  SP,
    input  SCLK,
    input  CD,
    output reg Q
);
  initial Q = 0;
  always @(posedge SCLK) if (SP) Q <= D;
endmodule

module OFS1P3BX (
    input  D,
    input  SP,
    input  SCLK,
    input  PD,
    output reg Q
);
  initial Q = 1;
  always @(posedge SCLK) if (SP) Q <= D;
endmodule

module IFS1P3DX (
    input  D,
    input  SP,
    input  SCLK,
    input  CD,
    output reg Q
);
  initial Q = 0;
  always @(posedge SCLK) if (SP) Q <= D;
endmodule

// D0 in the clock's first half, D1 in the second. Here it only sends a clock.
module ODDRX1F (
    input  SCLK,
    input  RST,
    input  D0,
    input  D1,
    output Q
);
  assign Q = SCLK ? D0 : D1;
endmodule

module BB (
    input  I,
    input  T,
    output O,
    inout  B
);
  assign B = T ? 1'bz : I;
  assign O = B;
endmodule
