"""Scratchpads and accumulators: banks of block RAM behind the ports of the units."""
