"""Runs artifacts on devices, and reports what a run measured."""
