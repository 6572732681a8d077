"""A variant on real FPGAs, by open tools: its cells, its clock, and what it is slow for."""
