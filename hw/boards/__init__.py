"""Boards: the logic around the accelerator in a bitstream, and the pin constraints."""
