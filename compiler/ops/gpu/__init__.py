"""Schedules of kernels for GPUs: loops bound to blocks and threads."""
