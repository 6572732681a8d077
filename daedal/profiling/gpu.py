"""`gpu_kernels` and `profile_gpu`: the kernels of an artifact, what they move and compute, and how
long they take on a GPU that has a clock.

>>> [(item.names, item.bytes_moved, item.seconds) for item in profile_gpu(artifact, "cuda")]
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from daedal.artifact.artifact import Artifact, HostPart
from daedal.artifact.gpu_code import GpuCode, GpuKernel
from daedal.artifact.host_code import CodeCall
from daedal.common.errors import UserError
from daedal.compiler.targets.gpu_peaks import GPU_PEAKS, GpuPeaks
from daedal.devices import open_gpu
from daedal.profiling.code_calls import Operators, bytes_moved
from daedal.runtime.gpu_device import GpuDevice, GraphDevice, kernel_arguments
from daedal.runtime.gpu_program import architecture_to_run, load_kernels

__all__ = ["KernelProfile", "gpu_kernels", "profile_gpu"]

Clock = Callable[[Callable[[], None]], float]
"""The seconds that a GPU needs for launches."""

_ROUNDS = 5
_ROUND_SECONDS = 1e-3
_MOST_LAUNCHES = 1000


@dataclass(frozen=True)
class KernelProfile:
    """A kernel of a part of an artifact.

    Attributes
    ----------
    part : its number.
    names : what it computes, by the model's names.
    operators : of ONNX, that give the tensors which it computes.
    launches : in one run.
    products : multiply-accumulates of a launch; 0 for a kernel that sums no products.
    bytes_moved : of its operands and its result, once each, in a launch.
    seconds : of a launch; None where no GPU with a clock has run it.
    peaks : those of the architecture, if they are known.
    """

    part: int
    kernel: GpuKernel
    names: tuple[str, ...]
    operators: tuple[str, ...]
    launches: int
    products: int
    bytes_moved: int
    seconds: float | None = None
    peaks: GpuPeaks | None = None

    @property
    def share_of_roof(self) -> float | None:
        """The least time by `peaks`, as a share of the time it takes; None if one is not known."""
        if self.seconds is None or self.peaks is None:
            return None
        cores = self.kernel.cores or "float32"
        least = self.peaks.seconds(self.bytes_moved, self.products, cores)
        return least / self.seconds


def gpu_kernels(artifact: Artifact) -> tuple[KernelProfile, ...]:
    """All kernels, in the order of their first launches, without times."""
    return tuple(
        item
        for number, model, code in _parts(artifact)
        for item in _kernels(number, code, Operators(model))
    )


def profile_gpu(artifact: Artifact, gpu: GpuDevice | str) -> tuple[KernelProfile, ...]:
    """The kernels, each timed by events of `gpu`, on zeros; without times where it has no clock,
    as the emulated one.

    Raises UserError for an artifact without kernels or without those of this GPU, DeviceError where
    the GPU fails.
    """
    device = open_gpu(gpu) if isinstance(gpu, str) else gpu
    found = gpu_kernels(artifact)
    if not found:
        raise UserError(
            "an artifact that is profiled on a GPU must have kernels, and this one has none; "
            "compile it with --target gpu"
        )
    clock: Clock | None = getattr(device, "seconds", None)
    if clock is None:
        return found
    times: dict[tuple[int, str], float] = {}
    peaks: dict[int, GpuPeaks | None] = {}
    for number, _, code in _parts(artifact):
        if architecture_to_run(code, device) is None:
            raise UserError(
                f"kernels that are timed must be for {device.name}, and those of part {number} are "
                f"for {', '.join(code.images)}; compile the model for one of "
                f"{', '.join(device.architectures)}"
            )
        peaks[number] = GPU_PEAKS.get(device.architectures[0])
        for symbol, seconds in _times(code, device, clock).items():
            times[number, symbol] = seconds
    return tuple(
        replace(item, seconds=times[item.part, item.kernel.symbol], peaks=peaks[item.part])
        for item in found
    )


def _parts(artifact: Artifact) -> Iterator[tuple[int, bytes, GpuCode]]:
    """Number, ONNX model and code of each part of a GPU."""
    for number, part in enumerate(artifact.parts):
        if isinstance(part, HostPart) and part.gpu is not None:
            yield number, part.model, part.gpu


def _kernels(number: int, code: GpuCode, operators: Operators) -> list[KernelProfile]:
    calls: dict[str, list[CodeCall]] = {}
    for call in code.host.calls:
        calls.setdefault(call.symbol, []).append(call)
    kernels = {kernel.symbol: kernel for kernel in code.kernels}
    return [
        KernelProfile(
            number,
            kernels[symbol],
            names,
            operators.of(names),
            len(group),
            group[0].products,
            bytes_moved(code.host, group[0]),
        )
        for symbol, group in calls.items()
        if symbol in kernels
        for names in [tuple(dict.fromkeys(name for call in group for name in call.computes))]
    ]


def _times(
    code: GpuCode,
    device: GpuDevice,
    clock: Clock,
) -> dict[str, float]:
    """Seconds of a launch of each kernel, in memory of zeros and constants."""
    host, kernels = code.host, {kernel.symbol: kernel for kernel in code.kernels}
    loaded = load_kernels(code, device)
    base = device.allocate(max(host.memory_bytes, 1))
    try:
        data = host.constant_data()
        device.write(base, data + bytes(host.memory_bytes - len(data)))
        found: dict[str, float] = {}
        for call in host.calls:
            if call.symbol not in kernels or call.symbol in found:
                continue
            kernel = kernels[call.symbol]
            extents = kernel.grid, kernel.block, kernel.shared_bytes
            addresses = [base + host.buffers[number].offset for number in call.buffers]
            arguments = kernel_arguments(kernel.maps, addresses, device)
            launch = partial(device.launch, loaded, kernel.symbol, *extents, arguments)
            found[call.symbol] = _seconds(launch, device, clock)
        return found
    finally:
        device.free(base)


def _seconds(launch: Callable[[], None], device: GpuDevice, clock: Clock) -> float:
    """Of one launch: the shortest of some rounds of as many as fit about a millisecond, which are a
    graph where the device has them, as the host may take longer to launch a kernel than it runs."""
    clock(launch)  # loads the code
    count = min(max(int(_ROUND_SECONDS / max(clock(launch), 1e-9)), 1), _MOST_LAUNCHES)

    def launches() -> None:
        for _ in range(count):
            launch()

    work: Callable[[], None] = launches
    if isinstance(device, GraphDevice):
        work = partial(device.replay, device.capture(launches))
    return min(clock(work) for _ in range(_ROUNDS)) / count
