"""Graph -> Graph passes, one per file."""
