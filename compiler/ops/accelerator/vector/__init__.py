"""Elementwise operators and pools on the ALU: schedules and tiles."""
