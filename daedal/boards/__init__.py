"""Tests of a connected board."""
