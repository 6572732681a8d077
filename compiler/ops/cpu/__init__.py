"""Schedules for processors, made by rules from the formulas themselves.

`reuse` finds out which axes suit vectors and which share what a vector has loaded; `schedule`
applies the primitives.
"""
