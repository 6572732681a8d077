"""STORE: rows of OUT or the accumulators to external memory."""
