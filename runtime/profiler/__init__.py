"""Profiler views: from the counters and marks of a launch to tables, charts, pages and traces."""
