"""What the spaces of tiles share: sizes, room on chip, counts of what tiles load."""
