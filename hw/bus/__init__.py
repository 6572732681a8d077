"""The AXI4 masters: requests cut into bursts, read data in order, write data and responses."""
