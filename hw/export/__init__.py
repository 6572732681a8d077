"""The accelerator for other tools: what Vivado needs to take it as an IP core."""
