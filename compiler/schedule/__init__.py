"""Schedule primitives: loop IR -> equivalent loop IR, recorded in a trace."""
