"""What is shown of results: consoles, tables, and the same as plain data."""
