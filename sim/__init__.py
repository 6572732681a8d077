"""Simulators of the machine: functional and register-transfer level."""
