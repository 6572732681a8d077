"""ALU: vector operations and requantization on the accumulators."""
