"""A memory of SDR SDRAM behind the machine's AXI4 port: the chip, its times, the controller."""
