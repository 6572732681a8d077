"""A synthesized netlist in place of the emitted Verilog: the same pins, the same programs."""
