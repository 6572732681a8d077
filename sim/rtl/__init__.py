"""Runs the emitted Verilog under cocotb, on Verilator or Icarus."""
