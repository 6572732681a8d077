"""The accelerator in Amaranth, and its Verilog."""
