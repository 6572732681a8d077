"""LOAD: rows from external memory into the scratchpads, with padding."""
