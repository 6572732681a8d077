"""Runs the emitted Verilog: natively, or under cocotb on Verilator or Icarus."""
