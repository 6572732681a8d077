"""From the compiled parts of a graph to an artifact: bindings, the host's models, the report."""
