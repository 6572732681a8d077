"""The order of instructions: which run at the same time, and which units wait."""
