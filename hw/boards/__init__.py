"""Boards: what stands around the accelerator in a bitstream, and where its pins are."""
