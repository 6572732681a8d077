"""Machines outside this process: boards, reached through registers and memory."""
