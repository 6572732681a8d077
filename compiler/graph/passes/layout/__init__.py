"""Passes that decide how tensors lie in memory, and how what moves them runs."""
