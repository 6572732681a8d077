"""The contract all parts derive from: variant, instructions, numerics, semantics, programs."""
