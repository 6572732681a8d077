"""Tests of the simulators: synthesis tools answer a call once (`tests.support.kept_tools`)."""

from tests.support.kept_tools import kept_tools

__all__ = ["kept_tools"]
