"""Runs a program on the RTL and on the functional simulator, and finds their first difference."""
