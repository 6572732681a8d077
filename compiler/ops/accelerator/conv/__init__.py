"""Convolutions on GEMM: schedules, tiles, cost."""
