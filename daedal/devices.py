"""Devices by name, found through entry point groups: ``daedal.devices`` has those that run the
programs of a variant, ``daedal.gpus`` GPUs."""

import inspect
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from daedal.common.errors import DaedalError, ToolError, UserError
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant
from daedal.runtime.gpu_device import GpuDevice

__all__ = [
    "device_names",
    "find_gpu",
    "gpu_names",
    "open_device",
    "open_gpu",
    "split_device",
    "takes_option",
    "text_options",
]

_GROUP = "daedal.devices"
_GPUS = "daedal.gpus"
_EMULATED = "gpu-emulated"
"""The GPU that is opened only where it is asked for: it is slow."""

_KINDS: dict[object, Callable[[str], str | int | float]] = {
    str: str,
    str | None: str,
    int: int,
    int | None: int,
    float: float,
}
"""Options of these types can be given as text."""

_EXTRAS = {"serial": "board"}
"""The extra that installs each package; all others are in the extra ``sim``."""


def device_names() -> list[str]:
    """Names that `open_device` knows."""
    return sorted(_points(_GROUP))


def gpu_names() -> list[str]:
    """Names that `open_gpu` knows."""
    return sorted(_points(_GPUS))


def open_device(name: str, variant: Variant, **options: Any) -> Device:
    """Open the device `name` for `variant`; options are the device's own keyword arguments.

    Raises UserError for an unknown name, ToolError where a package it needs is missing.
    """
    device: Device = _factory(name)(variant, **options)
    return device


def open_gpu(name: str, **options: Any) -> GpuDevice:
    """Open the GPU `name`; options are its own keyword arguments.

    Raises UserError for an unknown name, ToolError where a package it needs is missing, DeviceError
    where there is no such GPU.
    """
    gpu: GpuDevice = _factory(name, _GPUS)(**options)
    return gpu


def split_device(name: str | None) -> tuple[str, str]:
    """The device for programs of an accelerator, and the GPU beside it, of a name such as
    ``functional+gpu-emulated``; empty for none.

    Raises UserError for a GPU alone.
    """
    device, _, gpu = (name or "functional").partition("+")
    if device in gpu_names():
        raise UserError(
            "an artifact with programs for an accelerator must be given a device for these, too, "
            f"as in functional+{device}, not {device!r} alone"
        )
    return device, gpu


def find_gpu() -> GpuDevice | None:
    """A GPU of this machine, or None where it has none; the emulated one does not count."""
    for name in sorted(_points(_GPUS).keys() - {_EMULATED}):
        try:
            return open_gpu(name)
        except DaedalError:
            continue
    return None


def text_options(name: str, texts: Sequence[str], *, gpu: bool = False) -> dict[str, Any]:
    """Options of the device `name`, or of the GPU of that name, from ``option=value`` each.

    Raises UserError for an option that the device lacks, or a value of the wrong type.
    """
    signature = inspect.signature(_factory(name, _GPUS if gpu else _GROUP), eval_str=True)
    kinds = {
        item.name: _KINDS[item.annotation]
        for item in signature.parameters.values()
        if item.kind is item.KEYWORD_ONLY and item.annotation in _KINDS
    }
    found: dict[str, Any] = {}
    for text in texts:
        option, equals, value = text.partition("=")
        if not equals or option not in kinds:
            raise UserError(
                f"an option of device {name!r} must be NAME=VALUE with a name of "
                f"{', '.join(kinds) or 'none, for it has no options'}; {text!r} is not"
            )
        try:
            found[option] = kinds[option](value)
        except ValueError as error:
            raise UserError(f"option {option!r} must be a number, not {value!r}") from error
    return found


def takes_option(name: str, option: str) -> bool:
    """Whether the device `name` has a keyword argument `option`. Raises as `open_device`."""
    return option in inspect.signature(_factory(name)).parameters


def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def _factory(name: str, group: str = _GROUP) -> Callable[..., Any]:
    points = _points(group)
    if name not in points:
        kind = "device" if group == _GROUP else "GPU"
        raise UserError(f"a {kind} is one of {', '.join(sorted(points))}, not {name!r}")
    try:
        factory: Callable[..., Any] = points[name].load()
    except ImportError as error:
        raise ToolError(
            f"device {name!r} needs the Python package {error.name!r}, which is missing; install "
            f"daedal[{_EXTRAS.get(error.name or '', 'sim')}]"
        ) from error
    return factory
