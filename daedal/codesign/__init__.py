"""Co-design: hardware parameters and schedules searched together."""
