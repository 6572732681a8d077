"""`GpuProgram`: a `GpuCode` on a device: its memory, its kernels, and runs."""

import itertools
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from daedal.artifact.gpu_code import CUBIN, GpuCode, GpuKernel
from daedal.artifact.host_code import ALIGN, CodeCall, HostCode, InterpretedNode, Join, Step
from daedal.common.errors import ArtifactError, DeviceError
from daedal.runtime.gpu_device import (
    GpuDevice,
    GraphDevice,
    LaunchGraph,
    LoadedKernels,
    kernel_arguments,
)
from daedal.runtime.host import Arrays
from daedal.runtime.processor_call import ProcessorCall
from daedal.runtime.program_memory import InterpretedStep, given_inputs

__all__ = ["GpuProgram", "architecture_to_run", "architectures_to_run", "load_kernels"]

Array = npt.NDArray[Any]


def architecture_to_run(code: GpuCode, device: GpuDevice) -> str | None:
    """The first of `architectures_to_run`, or None where there is none."""
    return next(iter(architectures_to_run(code, device)), None)


def architectures_to_run(code: GpuCode, device: GpuDevice) -> tuple[str, ...]:
    """The best architecture of the code that the device runs, as a cubin first where there is one
    that fits: an older driver may refuse it, and compile the PTX. Empty where it runs none."""
    for name in device.architectures:
        cubin = f"{name}{CUBIN}"
        found = [cubin] if cubin in code.images and _fits(name, device.architectures[0]) else []
        found += [name] if name in code.images else []
        if found:
            return tuple(found)
    return ()


def _fits(architecture: str, own: str) -> bool:
    """Whether a GPU of the architecture `own` runs machine code of another one: of the same
    generation, whose number without the last digit is that of the architecture.

    Source: CUDA C++ Programming Guide, "Binary Compatibility".
    """
    if architecture[-1].isalpha():
        return architecture == own
    number = own.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    return architecture.removeprefix("sm_")[:-1] == number[:-1]


def load_kernels(code: GpuCode, device: GpuDevice) -> LoadedKernels:
    """The kernels of the first of `architectures_to_run` whose images the device takes.

    Raises ArtifactError where there is none, and what the device raises.
    """
    architectures = architectures_to_run(code, device)
    if not architectures:
        raise ArtifactError(
            f"an artifact must hold code for {device.name}, and it has that of "
            f"{', '.join(code.images) or 'none'}; compile the model here"
        )
    *others, last = architectures
    symbols = [kernel.symbol for kernel in code.kernels]
    for architecture in others:
        try:
            return device.load(code.images[architecture], symbols)
        except DeviceError:
            continue
    return device.load(code.images[last], symbols)


class GpuProgram:
    """Compiled code that is ready to run. One run at a time: runs share the memory.

    The memory is allocated once, with the constants in it, and given back with this object.

    Raises ArtifactError where the code is for no architecture of the device, or has functions for
    other processors, and what the device raises.
    """

    def __init__(self, code: GpuCode, device: GpuDevice) -> None:
        loaded = load_kernels(code, device)
        self.code = code
        kernels = {kernel.symbol: kernel for kernel in code.kernels}
        self._memory = _DeviceMemory(code.host, device)
        self._steps = _ready(code.host, kernels, loaded, self._memory)

    def run(self, values: Mapping[str, Array]) -> Arrays:
        """Outputs by name. Raises ModelError for inputs that do not fit, and what the device
        raises."""
        code, memory = self.code.host, self._memory
        placed, found = given_inputs(code, values)
        for name, value in placed.items():
            memory.store(code.names[name], value)
        for step in self._steps:
            step.run(found)
        return {
            name: memory.fetch(code.names[name]) if name in code.names else found[name]
            for name in code.outputs
        }


class _DeviceMemory:
    """The memory of a program on a device."""

    def __init__(self, code: HostCode, device: GpuDevice) -> None:
        self.device = device
        self._buffers = code.buffers
        self._base = device.allocate(max(code.memory_bytes, ALIGN))
        weakref.finalize(self, device.free, self._base).atexit = False
        if code.constants:
            device.write(self._base, code.constant_data())

    def address(self, number: int) -> int:
        """Of a buffer."""
        return self._base + self._buffers[number].offset

    def addresses(self, call: CodeCall) -> list[int]:
        """Of the arguments of a call."""
        return [self.address(number) for number in call.buffers]

    def arguments(self, call: CodeCall, kernels: Mapping[str, GpuKernel]) -> list[int | bytes]:
        """What the kernel of a call is launched with."""
        return kernel_arguments(kernels[call.symbol].maps, self.addresses(call), self.device)

    def fetch(self, number: int) -> Array:
        """A copy of the tensor in a buffer."""
        buffer = self._buffers[number]
        size = math.prod(buffer.shape) * np.dtype(buffer.dtype).itemsize
        data = self.device.read(self.address(number), size) if size else b""
        return np.frombuffer(bytearray(data), buffer.dtype).reshape(buffer.shape)

    def store(self, number: int, value: Array) -> None:
        """Copy a tensor into a buffer, converted to its type."""
        if value.size:
            dtype = np.dtype(self._buffers[number].dtype)
            self.device.write(self.address(number), np.asarray(value, dtype).tobytes())

    def own(self, result: Any) -> Any:
        """`result` as it is: nothing on the host is part of this memory."""
        return result


class _Ready(Protocol):
    """A step that is ready to run."""

    def run(self, values: Arrays, /) -> None:
        """Run it; `values` has what is not in the device's memory."""


def _ready(
    code: HostCode,
    kernels: Mapping[str, GpuKernel],
    loaded: LoadedKernels,
    memory: _DeviceMemory,
) -> list[_Ready]:
    """What runs the steps; launches that follow each other are one."""
    found: list[_Ready] = []

    def is_launch(step: Step) -> bool:
        return isinstance(step, CodeCall) and step.symbol in kernels

    for are_launches, group in itertools.groupby(code.steps, is_launch):
        if are_launches:
            calls = [step for step in group if isinstance(step, CodeCall)]
            launches = [
                _Launch(
                    kernels[call.symbol], loaded, memory.arguments(call, kernels), memory.device
                )
                for call in calls
            ]
            found.append(_Launches(launches, memory.device))
            continue
        for step in group:
            if isinstance(step, InterpretedNode):
                found.append(InterpretedStep(step, code, memory))
            elif isinstance(step, Join):
                found.append(_Join(step, memory))
            else:
                found.append(ProcessorCall(step, code, memory))
    return found


class _Launches:
    """Launches, one after the other: as a graph where the device has them."""

    def __init__(self, launches: Sequence["_Launch"], device: GpuDevice) -> None:
        self._launches = launches
        self._device = device
        self._graph: LaunchGraph | None = None
        if isinstance(device, GraphDevice) and len(launches) > 1:
            self._graph = device.capture(self._launch_all)

    def run(self, _values: Arrays) -> None:
        if self._graph is None:
            self._launch_all()
        else:
            assert isinstance(self._device, GraphDevice)
            self._device.replay(self._graph)

    def _launch_all(self) -> None:
        for launch in self._launches:
            launch.run()


class _Launch:
    """A launch of a kernel."""

    def __init__(
        self,
        kernel: GpuKernel,
        loaded: LoadedKernels,
        arguments: Sequence[int | bytes],
        device: GpuDevice,
    ) -> None:
        self._kernel = kernel
        self._loaded = loaded
        self._arguments = arguments
        self._device = device

    def run(self) -> None:
        """Start it."""
        kernel = self._kernel
        self._device.launch(
            self._loaded,
            kernel.symbol,
            kernel.grid,
            kernel.block,
            kernel.shared_bytes,
            self._arguments,
        )


class _Join:
    """Tensors joined on the host."""

    def __init__(self, join: Join, memory: _DeviceMemory) -> None:
        self._join = join
        self._memory = memory

    def run(self, _values: Arrays) -> None:
        *parts, result = self._join.buffers
        arrays = [self._memory.fetch(number) for number in parts]
        self._memory.store(result, np.concatenate(arrays, self._join.axis))
