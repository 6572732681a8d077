"""Joins the search over schedules with the devices that measure them: `tune_network`."""
