// The ECP5's clock generator for simulations, which count cycles: frequencies and phases mean
// nothing. Without CLKOS2 every output is the input. With it, CLKOS2 and CLKOS3 have half the input's
// rate and CLKOS a quarter of it; all three change at the same time, so that no register of one sees
// what another one has just become.
module EHXPLLL (
    input  CLKI,
    input  CLKFB,
    input  RST,
    input  STDBY,
    output CLKOP,
    output CLKOS,
    output CLKOS2,
    output CLKOS3,
    output LOCK
);
  parameter CLKI_DIV = 1;
  parameter CLKFB_DIV = 1;
  parameter CLKOP_DIV = 8;
  parameter CLKOS_DIV = 8;
  parameter CLKOS2_DIV = 8;
  parameter CLKOS3_DIV = 8;
  parameter CLKOP_CPHASE = 0;
  parameter CLKOS_CPHASE = 0;
  parameter CLKOS2_CPHASE = 0;
  parameter CLKOS3_CPHASE = 0;
  parameter CLKOS3_FPHASE = 0;
  parameter CLKOP_ENABLE = "ENABLED";
  parameter CLKOS_ENABLE = "DISABLED";
  parameter CLKOS2_ENABLE = "DISABLED";
  parameter CLKOS3_ENABLE = "DISABLED";
  parameter FEEDBK_PATH = "CLKOP";

  reg [3:0] cycles = 0;
  always @(posedge CLKI) if (!LOCK) cycles <= cycles + 1;
  assign LOCK = &cycles;
  assign CLKOP = CLKI;

  generate
    if (CLKOS2_ENABLE == "ENABLED") begin : g_memory
      reg slow = 0, fast = 0;
      always @(posedge CLKI) begin
        fast <= !fast;
        if (fast == 0) slow <= !slow;
      end
      assign CLKOS = slow;
      assign CLKOS2 = fast;
      assign CLKOS3 = fast;
    end else begin : g_plain
      assign CLKOS = CLKI;
      assign CLKOS2 = 0;
      assign CLKOS3 = 0;
    end
  endgenerate
endmodule
