"""AXI4-Lite registers, start and stop of a run, performance counters and marks."""
