"""Passes that leave the same computation with fewer or simpler nodes."""
