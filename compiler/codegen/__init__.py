"""Scheduled loop IR -> relocatable segments of instructions."""
