// The ECP5's clock generator for simulations: every output is the input, and it locks after a while.
// Frequencies mean nothing to a simulation that counts cycles.
module EHXPLLL (
    input  CLKI,
    input  CLKFB,
    input  RST,
    input  STDBY,
    output CLKOP,
    output CLKOS,
    output LOCK
);
  parameter CLKI_DIV = 1;
  parameter CLKFB_DIV = 1;
  parameter CLKOP_DIV = 8;
  parameter CLKOS_DIV = 8;
  parameter CLKOP_CPHASE = 0;
  parameter CLKOS_CPHASE = 0;
  parameter CLKOP_ENABLE = "ENABLED";
  parameter CLKOS_ENABLE = "DISABLED";
  parameter FEEDBK_PATH = "CLKOP";

  reg [3:0] cycles = 0;
  always @(posedge CLKI) if (!LOCK) cycles <= cycles + 1;

  assign CLKOP = CLKI;
  assign CLKOS = CLKI;
  assign LOCK = &cycles;
endmodule
