"""Passes for heads, matrix products of two computed operands, and a decoder's states."""
