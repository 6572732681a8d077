"""A variant mapped to FPGAs by open tools: its cells, its clock and its worst paths."""
