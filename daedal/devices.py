"""Devices by name, found through the entry point group ``daedal.devices``."""

from importlib.metadata import entry_points
from typing import Any

from daedal.isa.errors import ToolError, UserError
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant

__all__ = ["device_names", "open_device"]

_GROUP = "daedal.devices"


def device_names() -> list[str]:
    """Names that `open_device` knows."""
    return sorted({point.name for point in entry_points(group=_GROUP)})


def open_device(name: str, variant: Variant, **options: Any) -> Device:
    """Make the device `name` of `variant`; options are the device's own keyword arguments.

    Raises UserError for an unknown name, ToolError where a package it needs is missing.
    """
    points = {point.name: point for point in entry_points(group=_GROUP)}
    if name not in points:
        raise UserError(f"a device is one of {', '.join(sorted(points))}, not {name!r}")
    try:
        factory = points[name].load()
    except ImportError as error:
        raise ToolError(
            f"device {name!r} needs the Python package {error.name!r}, which is missing; install "
            "daedal[sim]"
        ) from error
    device: Device = factory(variant, **options)
    return device
