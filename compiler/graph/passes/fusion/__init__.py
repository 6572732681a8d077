"""Passes that bring operators together into one layer."""
