"""Passes that choose and move channels: selections, shuffles, slices, Concat."""
