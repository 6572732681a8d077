"""Depthwise convolutions: schedules, tiles, cost."""
