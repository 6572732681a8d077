"""The path of an instruction to its unit: fetch, assembly, dependency tokens, hardware loops."""
