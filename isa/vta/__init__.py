"""Reads upstream VTA's instruction streams and translates them into our programs.

In processing order: `stream` (bits), `dump` (a program with its memory), `operations` and `resolve`
(what each instruction does, micro-ops evaluated), `fuse` (drops passes our machine does not need),
`micro_ops` and `emit` (our instructions), `translate` (the whole translation).
"""
