"""``daedal profile``: where the cycles of an artifact go, or its time on a processor or a GPU."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from daedal.artifact.artifact import Artifact
from daedal.commands.options import (
    ArtifactFile,
    ArtifactMemory,
    Assertions,
    Json,
    check_outputs,
    complete_device,
)
from daedal.common.errors import UserError
from daedal.common.files import write_atomically
from daedal.reports.console import make_console, print_json, print_tables, show_progress

if TYPE_CHECKING:
    from rich.table import Table

    from daedal.isa.protocols import Device

__all__ = ["profile_command"]

_PROCESSOR = "cpu"

_out = make_console()
_err = make_console(stderr=True)


def profile_command(
    artifact: ArtifactFile,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            autocompletion=lambda: [_PROCESSOR, *complete_device()],
            help="A device that counts cycles: timing (the default), rtl, or a board; a GPU, cuda, "
            "to time the kernels of an artifact for GPUs; or cpu, to time what this processor "
            "runs: the default where there is nothing for an accelerator.",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Option of a board or a GPU, NAME=VALUE; may be repeated."
        ),
    ] = None,
    memory: ArtifactMemory = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of memory model jitter.")] = 0,
    layer: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER", help="Also show this layer's units; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the profile, for `daedal diff`.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace for Perfetto or chrome://tracing.")
    ] = None,
    assertions: Assertions = False,
    as_json: Json = False,
) -> None:
    """Launch ARTIFACT once and show where its cycles went, layer by layer.

    The cycle model (device timing) counts what the RTL counts, in seconds; --device rtl simulates.
    The page and the trace need a second launch, in which every instruction is marked. A GPU times
    each kernel by its events; a processor runs the compiled parts again and again, by one thread.
    """
    from daedal.devices import gpu_names
    from daedal.profiling.accelerator import profile
    from daedal.reports.profile import layers_table, units_table

    check_outputs(output, html, trace)
    loaded = Artifact.load(artifact)
    timing = loaded.memory_or(memory, seed)
    if device is None:
        device = "timing" if loaded.launches or loaded.has_gpu_code else _PROCESSOR
    if device == _PROCESSOR or device in gpu_names():
        if layer or html or trace:
            raise UserError("--layer, --html and --trace are of an accelerator; leave them out")
        if device != _PROCESSOR:
            _profile_kernels(loaded, device, option or (), output, as_json=as_json)
        elif option:
            raise UserError("--option is for a board or a GPU, not for cpu; leave it out")
        else:
            _profile_calls(loaded, output, as_json=as_json)
        return
    if loaded.has_gpu_code and not loaded.launches:
        raise UserError(
            "an artifact for GPUs must be profiled on one: add --device cuda, or --device "
            "gpu-emulated for its kernels without times"
        )
    names = [item.name for item in loaded.layers]
    for name in layer or ():
        if name not in names:
            raise UserError(f"--layer must be one of {', '.join(names)}, not {name!r}")
    with show_progress(_err) as report:
        result = profile(
            loaded,
            device=_opened(device, loaded, option or (), report),
            memory=timing,
            timeline=html is not None or trace is not None,
            name=artifact.stem,
            **({"assertions": assertions, "report": report} if device == "rtl" else {}),
        )
    document = result.to_json()
    if output is not None:
        write_atomically(output, json.dumps(document) + "\n")
    if html is not None:
        from daedal.runtime.profiler.page import profile_page

        write_atomically(html, profile_page(result))
    if trace is not None:
        from daedal.runtime.profiler.chrome_trace import chrome_trace

        write_atomically(trace, json.dumps(chrome_trace(result)) + "\n")
    if as_json:
        print_json(document)
        return
    print_tables(_out, layers_table(result))
    print_tables(_out, units_table(f"Units over {result.cycles:,} cycles", result.units))
    for item in result.layers:
        if item.layer.name in (layer or ()):
            print_tables(_out, units_table(f"Units in {item.layer.name}", item.units))
    for path in (output, html, trace):
        if path is not None:
            hint = "; `daedal diff` compares it with another one" if path is output else ""
            _err.print(f"wrote {escape(str(path))}{hint}")


def _profile_kernels(
    artifact: Artifact,
    device: str,
    options: Sequence[str],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Show the kernels of an artifact, timed where the GPU has a clock."""
    from daedal.devices import open_gpu, text_options
    from daedal.profiling.gpu import profile_gpu
    from daedal.reports.gpu_kernels import kernels_json, kernels_note, kernels_table

    gpu = open_gpu(device, **text_options(device, options, gpu=True))
    found = profile_gpu(artifact, gpu)
    document = {"gpu": gpu.name, "kernels": kernels_json(found)}
    _show(document, kernels_table(found), kernels_note(found), output, as_json=as_json)


def _profile_calls(artifact: Artifact, output: Path | None, *, as_json: bool) -> None:
    """Show the calls of compiled code, timed on this processor."""
    from daedal.api import code_trust
    from daedal.profiling.host import profile_host
    from daedal.reports.host_calls import calls_json, calls_note, calls_table

    with show_progress(_err) as report:
        found = profile_host(artifact, code_trust(report=report))
    _show(calls_json(found), calls_table(found), calls_note(found), output, as_json=as_json)


def _show(
    document: dict[str, Any], table: "Table", note: str, output: Path | None, *, as_json: bool
) -> None:
    """Write a profile of kernels as JSON, and print it as a table, or as JSON, too."""
    if output is not None:
        write_atomically(output, json.dumps(document) + "\n")
        _err.print(f"wrote {escape(str(output))}")
    if as_json:
        print_json(document)
        return
    print_tables(_out, table)
    _out.print(escape(note))


def _opened(
    device: str, artifact: Artifact, texts: Sequence[str], report: Callable[[str], None]
) -> "str | Device":
    """The device, opened where it has options, which may have any name."""
    from daedal.devices import open_device, takes_option, text_options

    options = text_options(device, texts)
    if not options:
        return device
    if takes_option(device, "report"):
        options["report"] = report
    return open_device(device, artifact.variant, **options)
