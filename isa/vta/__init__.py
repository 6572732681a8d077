"""Programs of upstream VTA: reading their instruction streams, translating them into ours.

In processing order: `stream` (bits), `dump` (a program with its memory), `operations` and `resolve`
(what each instruction does, micro-ops evaluated), `fuse` (passes that are not needed here),
`micro_ops` and `emit` (our instructions), `translate` (all of it).
"""
