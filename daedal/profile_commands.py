"""The commands ``daedal profile`` and ``daedal diff``."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from daedal.console import Memory, check_outputs, make_console, print_json, show_progress
from daedal.isa.artifact import Artifact
from daedal.isa.errors import UserError
from daedal.isa.files import write_atomically

__all__ = ["diff_command", "profile_command"]

_out = make_console()
_err = make_console(stderr=True)

_WIDEST = 1000

_Json = Annotated[bool, typer.Option("--json", help="Report as JSON on standard output.")]


def profile_command(
    artifact: Annotated[Path, typer.Argument(help="What `daedal compile` wrote.")],
    device: Annotated[str, typer.Option(help="A device that counts cycles.")] = "rtl",
    memory: Annotated[Memory, typer.Option(help="Memory model.")] = Memory.ddr,
    seed: Annotated[int, typer.Option(help="Seed of memory model jitter.")] = 0,
    layer: Annotated[
        list[str] | None, typer.Option(help="Also show this layer's units; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the profile, for `daedal diff`.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace for Perfetto or chrome://tracing.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Launch ARTIFACT once and show where its cycles went, layer by layer.

    The page and the trace need a second launch, in which every instruction is marked.
    """
    from daedal.isa.memory_model import memory_model
    from daedal.profile_tables import layers_table, units_table
    from daedal.profiling import profile

    check_outputs(output, html, trace)
    loaded = Artifact.load(artifact)
    names = [item.name for item in loaded.layers]
    for name in layer or ():
        if name not in names:
            raise UserError(f"--layer must be one of {', '.join(names)}, not {name!r}")
    with show_progress(_err) as report:
        result = profile(
            loaded,
            device=device,
            memory=memory_model(memory.value, seed),
            timeline=html is not None or trace is not None,
            name=artifact.stem,
            **({"report": report} if device == "rtl" else {}),
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
    _print(layers_table(result))
    _print(units_table(f"Units over {result.cycles:,} cycles", result.units))
    for item in result.layers:
        if item.layer.name in (layer or ()):
            _print(units_table(f"Units in {item.layer.name}", item.units))
    for path in (output, html, trace):
        if path is not None:
            _err.print(f"wrote {escape(str(path))}")


def diff_command(
    before: Annotated[Path, typer.Argument(help="What `daedal profile --output` wrote.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
    as_json: _Json = False,
) -> None:
    """Compare two profiles: what moved, layer by layer, the largest change first."""
    from daedal.profile_tables import conditions_text, diff_table
    from daedal.runtime.profiler.diff import diff_profiles
    from daedal.runtime.profiler.reader import load_profile

    diff = diff_profiles(load_profile(before), load_profile(after))
    if as_json:
        print_json(diff.to_json())
        return
    _out.print(escape(conditions_text(diff)), end="")
    _print(diff_table(diff))
    _out.print(escape(diff.summary))


def _print(table: Table) -> None:
    """Print a table; a file gets all of its columns, however wide they are."""
    if not _out.is_terminal:
        needed = Measurement.get(_out, _out.options.update(max_width=_WIDEST), table).maximum
        _out.width = max(_out.width, needed)
    _out.print(table)
