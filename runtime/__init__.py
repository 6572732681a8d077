"""Running artifacts on devices, and what a run reports."""
