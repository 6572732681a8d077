"""Executes programs on numpy arrays, checking tokens on the way."""
