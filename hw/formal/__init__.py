"""Proofs about small blocks of the machine: what must hold in every cycle of every run.

`claims` wraps a block with free inputs and states properties, `aiger` turns that into logic,
`engine` searches counterexamples and invariants, `prove` is the front door. The properties lie in
files named after the block they are about; no block knows of them.
"""
