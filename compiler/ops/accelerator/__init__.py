"""Schedules for the accelerator; tiles are chosen from the variant's capacities."""
