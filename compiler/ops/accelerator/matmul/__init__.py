"""Matrix products of two maps: schedules and tiles."""
