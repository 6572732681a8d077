"""Writes the documentation's tables of measured area, clock and cycles; no part of the flow."""
