"""Profiles of compiled networks: on the accelerator, on processors, and on GPUs."""
