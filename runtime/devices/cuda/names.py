"""`gpu_report`: the GPUs of this machine, for ``daedal doctor``."""

from collections.abc import Callable
from dataclasses import dataclass

from daedal.common.errors import DaedalError, ToolError
from daedal.runtime.devices.cuda.device import architectures_of
from daedal.runtime.devices.cuda.driver import HOW_TO_GET, Driver, open_driver
from daedal.runtime.devices.cuda.functions import COMPUTE_MAJOR, COMPUTE_MINOR, MULTIPROCESSORS

__all__ = ["GpuRecord", "GpuReport", "gpu_report"]


@dataclass(frozen=True)
class GpuRecord:
    """A GPU.

    Attributes
    ----------
    architecture : of code that is made for it alone.
    """

    name: str
    architecture: str
    multiprocessors: int
    memory_bytes: int


@dataclass(frozen=True)
class GpuReport:
    """What the CUDA driver tells.

    Attributes
    ----------
    cuda : the newest CUDA that it supports, None without a driver.
    problem : why there are no GPUs, None where there are.
    how_to_get : what to install, empty where nothing is missing.
    """

    cuda: str | None
    gpus: tuple[GpuRecord, ...]
    problem: str | None = None
    how_to_get: str = ""


def gpu_report(opened: Callable[[], Driver] = open_driver) -> GpuReport:
    """Ask the driver; its errors become part of the report."""
    try:
        driver = opened()
        major, minor = driver.version
        gpus = tuple(_record(driver, number) for number in range(driver.num_devices()))
    except ToolError as error:
        return GpuReport(None, (), str(error), HOW_TO_GET)
    except DaedalError as error:
        return GpuReport(None, (), str(error))
    return GpuReport(f"{major}.{minor}", gpus, None if gpus else "the driver finds no GPU")


def _record(driver: Driver, number: int) -> GpuRecord:
    device = driver.device(number)
    major = driver.attribute(device, COMPUTE_MAJOR)
    minor = driver.attribute(device, COMPUTE_MINOR)
    return GpuRecord(
        driver.device_name(device),
        architectures_of(major, minor)[0],
        driver.attribute(device, MULTIPROCESSORS),
        driver.memory_bytes(device),
    )
