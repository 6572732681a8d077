"""Segments of all layers -> one program: scratchpad rows, memory plan, tokens."""
