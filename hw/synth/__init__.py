"""Area of a variant on real FPGAs, by open tools: which cells its Verilog becomes."""
