"""Presentation of results: consoles, tables, and the same as plain data."""
