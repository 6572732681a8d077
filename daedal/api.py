"""The public functions: `compile` a model for a target, and `simulate` the artifact.

>>> artifact = daedal.compile("digits_qdq.onnx", daedal.load_variant("vta"))
>>> result = daedal.simulate(artifact, {"image": images}, device="rtl")
>>> result.outputs["probabilities"], result.profiles[0].cycles
>>> artifact = daedal.compile("digits.onnx", target="cpu")
>>> daedal.simulate(artifact, {"input": images}).outputs["probabilities"]
>>> artifact = daedal.compile("digits.onnx", target="gpu")
>>> daedal.simulate(artifact, {"input": images}, device="gpu-emulated")
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from daedal.artifact.artifact import Artifact
from daedal.artifact.host_code import LEVEL_MACHINES
from daedal.common.errors import UserError
from daedal.common.reporting import Report
from daedal.compiler.artifact.host_code import best_levels
from daedal.compiler.frontend.reader import Source, source_of
from daedal.compiler.layers.segment_store import default_store
from daedal.compiler.model import (
    compile_for_cpu,
    compile_for_gpu,
    compile_gpu_part,
    compile_model,
    compile_part,
)
from daedal.compiler.ops.space import Config
from daedal.compiler.targets.crossings import DEFAULT_HOST, HostRates
from daedal.compiler.targets.names import CPU, GPU
from daedal.devices import find_gpu, open_device, open_gpu, split_device, takes_option
from daedal.isa.memory_file import AnyMemory, load_memory
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant, load_variant
from daedal.items import split_items, stack_items
from daedal.native.cache import NoCache
from daedal.runtime.executor import Executor, RunResult
from daedal.runtime.gpu_device import GpuDevice
from daedal.runtime.host_parts import CodeTrust
from daedal.runtime.layers import LayerProfile, layer_profiles

__all__ = [
    "CPU",
    "GPU",
    "SimulationResult",
    "code_trust",
    "compile",
    "gpu_of_target",
    "is_cpu",
    "simulate",
    "target_variant",
]


@dataclass(frozen=True, repr=False)
class SimulationResult:
    """Results of one or more runs.

    `outputs` and `tensors` (those that left the accelerator) are stacked along axis 0. There is one
    profile per run, over all its launches; `layers` has the per-layer profiles of each run, if the
    device records marks. Runs without launches have neither.
    """

    outputs: dict[str, npt.NDArray[Any]]
    tensors: dict[str, npt.NDArray[np.int64]]
    profiles: tuple[Profile, ...]
    layers: tuple[tuple[LayerProfile, ...], ...]

    def __repr__(self) -> str:
        outputs = ", ".join(
            f"{name} {array.dtype}[{','.join(map(str, array.shape))}]"
            for name, array in self.outputs.items()
        )
        runs = f"; {len(self.profiles)} runs" if self.profiles else ""
        return f"<SimulationResult: {outputs}{runs}>"

    @classmethod
    def of_runs(cls, artifact: Artifact, runs: Sequence[RunResult]) -> "SimulationResult":
        """Join one or more runs of an artifact."""
        launched = [run for run in runs if run.launches]
        return cls(
            outputs=stack_items([run.outputs for run in runs]),
            tensors=stack_items([run.tensors for run in runs]),
            profiles=tuple(run.profile for run in launched),
            layers=tuple(_layers(artifact, run) for run in launched),
        )


def compile(  # the name of the public interface, as in torch.compile and re.compile
    model: Source,
    variant: Variant | str | None = None,
    *,
    target: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    fuse: bool = True,
    host: HostRates | None = DEFAULT_HOST,
    configs: Mapping[str, Config] | None = None,
    other_configs: bool = False,
    records: str | Path | None = None,
    precision: str = "float32",
    states: Mapping[str, str] | None = None,
    memory: AnyMemory = "ddr",
    cache: bool = True,
    cpu_levels: Sequence[str] | None = None,
    dump_dir: str | Path | None = None,
    report: Report | None = None,
) -> Artifact:
    """Compile an ONNX model for a target.

    For a variant, an int8 model becomes one program, unless host operators split it, and machine
    code for the host's parts. For the target ``cpu``, any model becomes machine code alone, and
    for the target ``gpu``, kernels for GPUs.

    `target` is ``cpu``, a variant's name or .toml file, or either of these with ``+cpu``, which is
    the same; or ``gpu``, for GPUs from 2020 on and the emulator, or ``gpu:`` and architectures with
    commas between them: ``emulated``, ``sm_80``, ``sm_90``, ``sm_90a``, ``spirv`` (for OpenCL); or
    a variant with ``+`` and one of these, for an accelerator and a GPU, which runs the host's
    parts. `variant` is a variant; one of both must be given. `cpu_levels` are the processors that
    machine code is for, of `native.levels`: by default the best level of this one, which is enough
    where the artifact is not run elsewhere; without any, the host's parts are interpreted.
    For GPUs, it is by default none: a processor that runs the artifact compiles the model then.

    `model` is the path of a file, its bytes or an ``onnx.ModelProto``. `shapes` are those of inputs
    that the model leaves open, by name; a batch is 1 by default.

    `from_tensors` and `to_tensors` select the part between quantized tensors. Without `fuse`, every
    operator is a separate layer, to measure the benefit of fusion. `host` has the rates that decide
    when a few operators between host operators are not worth the transfer to the accelerator and
    back, as `daedal.load_host_rates` gives them; with None, everything that can run on the
    accelerator does. `configs` are schedules of
    layers by the keys of their workloads, as `daedal.tuning` finds them; for the targets
    ``cpu`` and ``gpu``, those of kernels; for processors, for the best of `cpu_levels`. `records`
    is a database of `daedal.tune`, from which they are taken instead.
    With `precision` ``float16`` or ``bfloat16``, GPUs multiply float32 as these where they have
    tensor cores for it, and add in float32.
    `states` are inputs that stay in the device's memory between launches, with the outputs that
    hold their new rows; a ``*`` stands for any text (docs/generation.md). `memory` is what is
    behind the machine, a preset or a TOML file (docs/memory.md): where its words take longer than
    the default's, tiles that move fewer of them are chosen. With `cache`, the code of
    layers and of the host's parts is kept in the user's cache for the next compilation. The
    intermediate forms are written to `dump_dir` after each step; `report` is called with a sentence
    before each long one. Without it, these sentences go to the log ``daedal`` at level INFO.

    Raises ModelError for a model that cannot be read or compiled, VariantError for an unknown
    variant, ScheduleError for a layer that does not fit the scratchpads, UserError for options that
    do not go together.
    """
    chosen = target_variant(variant, target)
    architectures = gpu_of_target(target)
    levels = best_levels() if cpu_levels is None else _checked_levels(cpu_levels)
    objects = None if cache else NoCache()
    if precision != "float32" and (chosen is not None or architectures is None):
        raise UserError(f"precision {precision} needs target gpu, not {target or variant}")
    if records is not None:
        from daedal.tuning.recorded import recorded_schedules

        if configs is not None:
            raise UserError("schedules come from records or from configs; give one of both")
        configs = recorded_schedules(
            records,
            source_of(model),
            chosen,
            load_memory(memory),
            is_gpu=architectures is not None,
        )
        other_configs = True  # other options may leave a tuned layer to the host
    if chosen is None:
        if from_tensors or to_tensors or states or not fuse or dump_dir is not None:
            raise UserError(
                f"target {target!r} takes whole models, without states of an accelerator; leave "
                "out parts, states, and the folder of intermediate forms"
            )
        if architectures is not None:
            return compile_for_gpu(
                model,
                shapes=shapes,
                architectures=architectures,
                cpu_levels=levels if cpu_levels else (),
                objects=objects,
                configs=configs,
                precision=precision,
                report=report,
            )
        return compile_for_cpu(
            model,
            shapes=shapes,
            cpu_levels=levels,
            objects=objects,
            configs=configs,
            report=report,
        )
    return compile_model(
        model,
        chosen,
        shapes=shapes,
        from_tensors=tuple(from_tensors),
        to_tensors=tuple(to_tensors),
        fuse=fuse,
        host=host,
        configs=configs,
        other_configs=other_configs,
        states=states,
        memory=load_memory(memory),
        store=default_store() if cache else None,
        cpu_levels=levels,
        gpus=architectures,
        objects=objects,
        dump_dir=Path(dump_dir) if dump_dir is not None else None,
        report=report,
    )


def is_cpu(target: str | None) -> bool:
    """Whether a target is processors alone."""
    return target in (CPU, f"+{CPU}")


def target_variant(variant: Variant | str | None, target: str | None) -> Variant | None:
    """The variant that `variant` and `target` name, or None for processors or GPUs alone.

    Raises UserError unless exactly one of both is given, VariantError for an unknown variant.
    """
    if (variant is None) == (target is None):
        raise UserError(
            f"a target must be given once, as a variant or as target {CPU!r}, {GPU!r} or "
            f"'VARIANT+cpu'; {'none is given' if variant is None else 'both are given'}"
        )
    if isinstance(variant, Variant):
        return variant
    name = str(variant if target is None else target)
    if target is not None:
        base, joined, _ = _parted(target)
        name = base if joined else name.removesuffix(f"+{CPU}")
        if not name or name == CPU:
            return None
    return load_variant(name)


def gpu_of_target(target: str | None) -> tuple[str, ...] | None:
    """The architectures of a target ``gpu:NAME,...`` or ``VARIANT+gpu:NAME,...``, none where it
    names none; None for other targets."""
    _, joined, names = _parted(target or "")
    if not joined:
        return None
    return tuple(names.split(",")) if names is not None else ()


def _parted(target: str) -> tuple[str, bool, str | None]:
    """The variant of a target, whether it has a GPU, and the architectures of that."""
    found = re.fullmatch(rf"(?:(.*)\+)?{GPU}(?::(.*))?", target)
    if found is None:
        return target, False, None
    base, names = found.groups()
    return base or "", True, names


def _checked_levels(levels: Sequence[str]) -> tuple[str, ...]:
    for level in levels:
        if level not in LEVEL_MACHINES:
            raise UserError(
                f"a level of a processor must be one of {', '.join(LEVEL_MACHINES)}, not {level!r}"
            )
    return tuple(dict.fromkeys(levels))


def code_trust(*, trust_file: bool = False, report: Report | None = None) -> CodeTrust:
    """Run machine code that was compiled here, and compile the rest again.

    `trust_file` runs all of a file's, whoever made it; `report` is called with a sentence where
    code is compiled again.
    """
    return CodeTrust(trust_file, compile_part, report, compile_gpu_part)


def simulate(
    artifact: Artifact,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    device: str | Device | GpuDevice | None = None,
    gpu: GpuDevice | None = None,
    trust: CodeTrust | None = None,
    progress: Callable[[int, int], None] | None = None,
    report: Report | None = None,
    **options: Any,
) -> SimulationResult:
    """Run an artifact, once for each item that the inputs hold along axis 0: with states, at one
    position after the other.

    `device` is a name (``functional``, the default, ``rtl``; `options` go to it) or an open device;
    an artifact for processors alone takes none. One by name has the memory that the artifact was
    compiled for, unless the option `timing` is another. For an artifact for GPUs it is one of these
    (``cuda``, ``gpu-emulated``): by default a GPU of this machine, and where there is none its
    processor runs the model. An artifact for an accelerator and a GPU takes both, as in
    ``functional+gpu-emulated``, or an open one as `gpu`. `trust`, made by `code_trust`, says which
    machine code from files runs: by default what was compiled here, and the rest is compiled again.
    `progress` is called with (runs done, runs in all), and `report` with a sentence before each
    long step: the first simulation of a machine on ``rtl`` builds its simulator, for a minute or
    more. Without `report`, these sentences go to the log ``daedal`` at level INFO.

    Raises ModelError for inputs that do not fit, DeviceError where the machine fails, UserError for
    a device that an artifact cannot use.
    """
    opened, found = _opened(artifact, device, options, report)
    executor = Executor(artifact, opened, trust or code_trust(report=report), gpu or found)
    feeds = split_items(executor.input_shapes, inputs)
    runs: list[RunResult] = []
    for number, feed in enumerate(feeds):
        if progress is not None:
            progress(number, len(feeds))
        runs.append(executor.run(feed, number if artifact.states else None))
    if progress is not None:
        progress(len(feeds), len(feeds))
    return SimulationResult.of_runs(artifact, runs)


def _opened(
    artifact: Artifact,
    device: str | Device | GpuDevice | None,
    options: Mapping[str, Any],
    report: Report | None,
) -> tuple[Device | None, GpuDevice | None]:
    """The device of an artifact's programs, and the GPU of its other parts."""
    if artifact.launches:
        if device is not None and not isinstance(device, str):
            return cast(Device, device), find_gpu() if artifact.has_gpu_code else None
        name, other = split_device(device)
        if other and not artifact.has_gpu_code:
            raise UserError(
                f"this artifact has nothing for a GPU to run; give the device {name!r} alone, or "
                "compile it with --target VARIANT+gpu"
            )
        if takes_option(name, "timing"):
            options = {"timing": artifact.memory, **options}
        if report is not None and takes_option(name, "report"):
            options = {"report": report, **options}
        opened = open_device(name, artifact.variant, **options)
        if other:
            return opened, open_gpu(other)
        return opened, find_gpu() if artifact.has_gpu_code else None
    if not artifact.has_gpu_code:
        if device is not None or options:
            raise UserError(
                "an artifact for processors alone has nothing for a device to run; give no device "
                "and no options of one"
            )
        return None, None
    if device is None:
        return None, find_gpu()
    return None, open_gpu(device, **options) if isinstance(device, str) else cast(GpuDevice, device)


def _layers(artifact: Artifact, run: RunResult) -> tuple[LayerProfile, ...]:
    return tuple(
        layer
        for launch, profile in zip(artifact.launches, run.launches, strict=True)
        for layer in layer_profiles(launch, profile)
    )
