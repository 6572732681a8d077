"""Simulators of the machine: functional, cycle model and RTL.

`trace` compares the functional one with the RTL.
"""
