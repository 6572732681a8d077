"""The code of layers: programs of one part, and what they reuse."""
