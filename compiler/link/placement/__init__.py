"""Where everything lies: tensors in memory, instances in the scratchpads, micro-ops, tokens."""
