"""Formal proofs about small blocks of the machine: properties of every cycle of every run.

`claims` wraps a block with free inputs and states properties, `aiger` lowers that to logic,
`engine` searches for counterexamples and invariants, `prove` is the entry point. The properties are
in files named after their block; blocks do not depend on them.
"""
