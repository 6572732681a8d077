"""``daedal run``: an artifact on a device, or on this processor."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from daedal.artifact.artifact import Artifact
from daedal.commands.npz import load_arrays, save_arrays
from daedal.commands.options import (
    ArtifactFile,
    ArtifactMemory,
    Assertions,
    Json,
    Simulator,
    check_outputs,
    complete_device,
)
from daedal.common.errors import UserError
from daedal.common.files import check_output_folder, make_folder
from daedal.isa.variant import load_variant, shipped_variants
from daedal.reports.console import make_console, print_json, print_tables, show_progress

if TYPE_CHECKING:  # compiler and devices load slowly, and other commands need none
    from daedal.api import SimulationResult
    from daedal.checking.layer_check import LayerCheck
    from daedal.isa.protocols import Device
    from daedal.runtime.gpu_device import GpuDevice

__all__ = ["run_command"]

_out = make_console()
_err = make_console(stderr=True)


def run_command(
    artifact: ArtifactFile,
    inputs: Annotated[Path, typer.Option("--input", "-i", help="A .npz of inputs by name.")],
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            autocompletion=complete_device,
            help="functional, timing, rtl, or the machine on a board: uio or uart; for an artifact "
            "for GPUs, cuda or gpu-emulated; for both, as functional+cuda; one "
            "for processors alone takes none.  [default: functional; a GPU if there is one]",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the device as NAME=VALUE: for uart, port=/dev/ttyUSB0.",
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            "--variant",
            "-v",
            metavar="VARIANT|FILE",
            autocompletion=shipped_variants,
            help="The device's variant, if not the artifact's own.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(help="The compiled model: compare every layer with its integer reference."),
    ] = None,
    memory: ArtifactMemory = None,
    seed: Annotated[int, typer.Option(help="rtl: seed of memory model jitter.")] = 0,
    simulator: Annotated[
        Simulator | None,
        typer.Option(help="rtl: the simulator; by default native, with --wave verilator."),
    ] = None,
    wave: Annotated[
        str | None,
        typer.Option(metavar="FIRST:END", help="rtl: record cycles FIRST:END as a waveform."),
    ] = None,
    wave_dir: Annotated[Path, typer.Option(help="rtl: folder of the waveform.")] = Path(),
    assertions: Assertions = False,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Run the machine code in ARTIFACT although it was not compiled on this machine; "
            "only for files from people whom you trust. By default its models are compiled again.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an artifact, once for each item along axis 0 of the inputs.

    With --check, the exit status is 1 if a layer differs.
    """
    from daedal.api import code_trust, simulate
    from daedal.checking.layer_check import check_layers
    from daedal.devices import (
        open_device,
        open_gpu,
        split_device,
        takes_option,
        text_options,
    )
    from daedal.sim.rtl.run import WAVE_FILE

    check_outputs(output)
    window = None if wave is None else _window(wave)
    if window is not None:
        check_output_folder(wave_dir, [WAVE_FILE])
    loaded = Artifact.load(artifact)
    timing = loaded.memory_or(memory, seed)
    arrays = load_arrays(inputs)
    opened: Device | None = None
    opened_gpu: GpuDevice | None = None
    with show_progress(_err) as report:
        if loaded.launches:
            accelerator, other = split_device(device)
            machine = load_variant(variant) if variant is not None else loaded.variant
            for launch in loaded.launches:
                launch.program.check_variant(machine, f"the {accelerator} device")
            options: dict[str, Any] = text_options(accelerator, option or ())
            if accelerator in ("rtl", "timing"):
                options["timing"] = timing
            if takes_option(accelerator, "report"):
                options["report"] = report
            if accelerator == "rtl":
                options |= {"simulator": simulator, "assertions": assertions}
                if window is not None:
                    make_folder(wave_dir)
                    options |= {"wave": window, "work_dir": wave_dir}
            opened = open_device(accelerator, machine, **options)
            if other:
                opened_gpu = open_gpu(other)
            device = device or accelerator
        elif variant or check or wave or ((device or option) and not loaded.has_gpu_code):
            raise UserError(_refusal(artifact, loaded))
        elif option and not device:
            raise UserError("an --option is one of a device; give its --device, too")
        elif device:
            opened_gpu = open_gpu(device, **text_options(device, option or (), gpu=True))
        where = device or "processor"

        def progress(done: int, total: int) -> None:
            report(f"running on {where}: {done} of {total} done")

        found: LayerCheck | None = None
        trusted = code_trust(trust_file=trust, report=_say)
        if check is None:
            result = simulate(
                loaded,
                arrays,
                device=opened or opened_gpu,
                gpu=opened_gpu,
                trust=trusted,
                progress=progress,
            )
        else:
            assert opened is not None, "an artifact without programs was refused"
            found = check_layers(
                loaded, check, arrays, device=opened, trust=trusted, progress=progress
            )
            result = found.result
    if output is not None:
        save_arrays(output, result.outputs)
    if as_json:
        print_json(_json(result, found))
    else:
        _print(result, found)
    if found is not None and not found.passed:
        raise typer.Exit(1)


def _refusal(path: Path, artifact: Artifact) -> str:
    """What is said to options for an accelerator, of an artifact without programs."""
    if artifact.has_gpu_code:
        return (
            f"{str(path)!r} is for GPUs, so a run must have no --variant, --check and --wave; "
            "leave them out"
        )
    return (
        f"{str(path)!r} is for processors alone, so a run must have no --device, --variant, "
        "--option, --check and --wave; leave them out"
    )


def _say(sentence: str) -> None:
    _err.print(escape(sentence))


def _json(result: "SimulationResult", check: "LayerCheck | None") -> dict[str, Any]:
    from daedal.reports.check import check_json

    document: dict[str, Any] = {
        "outputs": {name: value.tolist() for name, value in result.outputs.items()},
        "runs": [
            {**profile.to_json(), "layers": [item.to_json() for item in layers]}
            for profile, layers in zip(result.profiles, result.layers, strict=True)
        ],
    }
    return document if check is None else {**document, "check": check_json(check)}


def _print(result: "SimulationResult", check: "LayerCheck | None") -> None:
    from daedal.reports.check import print_check
    from daedal.reports.run import layers_table, profile_table, repeats_text

    for name, value in result.outputs.items():
        flat = np.array2string(value, precision=4, suppress_small=True, threshold=64)
        _out.print(escape(f"{name} {value.shape}:\n{flat}"))
    if result.layers and result.layers[0]:
        print_tables(
            _out, layers_table(result.layers[0]), profile_table(result.profiles[0].to_json())
        )
    if len(result.profiles) > 1 and result.profiles[0].cycles is not None:
        cycles = repeats_text([profile.cycles for profile in result.profiles])
        _out.print(f"cycles of each run: {cycles}")
    if check is not None:
        print_check(_out, check)


def _window(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,18}):([0-9]{1,18})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise UserError(f"--wave must be FIRST:END with FIRST below END, not {text[:80]!r}")
    return int(found[1]), int(found[2])
