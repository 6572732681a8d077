"""The command line.

``daedal compile | quantize | run | profile | diff | trace | verilog | disasm | doctor``.

Results go to standard output (as JSON with ``--json``), progress to standard error. Exit status: 0
done, 1 a device failed or differs, 2 the input was wrong, 130 interrupted.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from daedal.console import Memory, check_outputs, make_console, print_json, show_progress
from daedal.isa.artifact import Artifact
from daedal.isa.assembly import disassemble
from daedal.isa.docs import registers_header
from daedal.isa.errors import ArtifactError, DaedalError, UserError
from daedal.isa.files import make_folder, write_atomically
from daedal.isa.program import Program
from daedal.isa.variant import load_variant
from daedal.npz import load_arrays, save_arrays
from daedal.profile_commands import diff_command, profile_command
from daedal.quantize_command import quantize_command
from daedal.trace_command import trace_command

__all__ = ["app", "main"]

app = typer.Typer(
    help="Hardware/software co-design for neural-network accelerators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = make_console()
_err = make_console(stderr=True)

_Json = Annotated[bool, typer.Option("--json", help="Report as JSON on standard output.")]
_Variant = Annotated[
    str, typer.Option("--variant", "-v", help="A shipped variant's name, or a .toml file.")
]


class Simulator(StrEnum):
    """Simulators of the RTL device."""

    native = "native"
    verilator = "verilator"
    icarus = "icarus"


def _show(*tables: Table) -> None:
    for table in tables:
        _out.print(table)


@app.command("compile")
def compile_command(
    model: Annotated[Path, typer.Argument(help="An int8 QDQ ONNX model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The artifact to write.")],
    variant: _Variant = "vta",
    from_tensors: Annotated[
        list[str] | None, typer.Option("--from", help="Start at this quantized tensor.")
    ] = None,
    to_tensors: Annotated[
        list[str] | None, typer.Option("--to", help="End at this quantized tensor.")
    ] = None,
    dump_dir: Annotated[
        Path | None, typer.Option(help="Write the intermediate forms into this folder.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Compile MODEL for a variant into one program."""
    from daedal.api import compile as compile_model
    from daedal.report import artifact_json, host_table, program_table

    check_outputs(output)
    if dump_dir is not None:
        make_folder(dump_dir)
    with show_progress(_err) as report:
        artifact = compile_model(
            model,
            variant,
            from_tensors=from_tensors or (),
            to_tensors=to_tensors or (),
            dump_dir=dump_dir,
            report=report,
        )
    artifact.save(output)
    summary = artifact_json(artifact)
    if as_json:
        print_json(summary)
        return
    _show(program_table(artifact), host_table(artifact))
    _out.print(
        f"{output}: {summary['instructions']:,} instructions, {summary['tokens']:,} tokens, "
        f"{summary['region_bytes']['constants']:,} bytes of constants for variant "
        f"{summary['variant']} ({summary['fingerprint']})",
    )


@app.command()
def run(
    artifact: Annotated[Path, typer.Argument(help="What `daedal compile` wrote.")],
    inputs: Annotated[Path, typer.Option("--input", "-i", help="A .npz of inputs by name.")],
    device: Annotated[str, typer.Option(help="functional, timing or rtl.")] = "functional",
    variant: Annotated[
        str | None,
        typer.Option("--variant", "-v", help="The device's variant, if not the artifact's own."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz.")
    ] = None,
    memory: Annotated[Memory, typer.Option(help="timing, rtl: memory model.")] = Memory.ddr,
    seed: Annotated[int, typer.Option(help="rtl: seed of memory model jitter.")] = 0,
    simulator: Annotated[
        Simulator | None, typer.Option(help="rtl: native, or with --wave verilator, if not given.")
    ] = None,
    wave: Annotated[
        str | None, typer.Option(help="rtl: record cycles FIRST:END as a waveform.")
    ] = None,
    wave_dir: Annotated[Path, typer.Option(help="rtl: folder of the waveform.")] = Path(),
    as_json: _Json = False,
) -> None:
    """Run an artifact on a device, once per item that the inputs hold along axis 0."""
    from daedal.api import simulate
    from daedal.devices import open_device
    from daedal.isa.memory_model import memory_model
    from daedal.report import layers_table, profile_table

    check_outputs(output)
    loaded = Artifact.load(artifact)
    arrays = load_arrays(inputs)
    machine = load_variant(variant) if variant is not None else loaded.variant
    loaded.program.check_variant(machine, f"the {device} device")
    options: dict[str, Any] = {}
    with show_progress(_err) as report:
        if device in ("rtl", "timing"):
            options["timing"] = memory_model(memory.value, seed)
        if device == "rtl":
            options |= {"simulator": simulator, "report": report}
            if wave is not None:
                make_folder(wave_dir)
                options |= {"wave": _window(wave), "work_dir": wave_dir}
        result = simulate(
            loaded,
            arrays,
            device=open_device(device, machine, **options),
            progress=lambda done, total: report(f"{device}: {done} of {total} done"),
        )
    if output is not None:
        save_arrays(output, result.outputs)
    if as_json:
        print_json(
            {
                "outputs": {name: value.tolist() for name, value in result.outputs.items()},
                "runs": [
                    {**profile.to_json(), "layers": [item.to_json() for item in layers]}
                    for profile, layers in zip(result.profiles, result.layers, strict=True)
                ],
            }
        )
        return
    for name, value in result.outputs.items():
        flat = np.array2string(value, precision=4, suppress_small=True, threshold=64)
        _out.print(f"{name} {value.shape}:\n{flat}")
    if result.layers[0]:
        _show(layers_table(result.layers[0]), profile_table(result.profiles[0].to_json()))
    if len(result.profiles) > 1 and result.profiles[0].cycles is not None:
        cycles = ", ".join(f"{profile.cycles:,}" for profile in result.profiles)
        _out.print(f"cycles of each run: {cycles}")


def _window(text: str) -> tuple[int, int]:
    first, _, end = text.partition(":")
    if not (first.isdigit() and end.isdigit() and int(first) < int(end)):
        raise UserError(f"--wave must be FIRST:END with FIRST below END, not {text!r}")
    return int(first), int(end)


app.command("profile")(profile_command)
app.command("diff")(diff_command)
app.command("quantize")(quantize_command)
app.command("trace")(trace_command)


@app.command()
def verilog(
    variant: Annotated[str, typer.Argument(help="A shipped variant's name, or a .toml file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")
    ] = None,
    header: Annotated[
        Path | None, typer.Option(help="Also write the register map as a C header.")
    ] = None,
) -> None:
    """Emit the accelerator of VARIANT as Verilog."""
    from daedal.hw.emit import emit_verilog

    check_outputs(output, header)
    chosen = load_variant(variant)
    with show_progress(_err) as report:
        report(f"emitting the Verilog of variant {chosen.name} ({chosen.fingerprint})")
        text = emit_verilog(chosen)
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)
        _err.print(f"{escape(str(output))}: {len(text):,} bytes, top module daedal_top")
    if header is not None:
        write_atomically(header, registers_header())


@app.command()
def disasm(
    file: Annotated[Path, typer.Argument(help="An artifact or a program.")],
    numbered: Annotated[bool, typer.Option(help="Number the instructions.")] = True,
    as_json: _Json = False,
) -> None:
    """Print the instructions of FILE as assembly, which the assembler reads back."""
    program = _load_program(file)
    if as_json:
        print_json([{"opcode": item.opcode.name, **item.values} for item in program.instructions])
        return
    sys.stdout.write(disassemble(program.instructions, numbered=numbered))


def _load_program(path: Path) -> Program:
    try:
        return Artifact.load(path).program
    except ArtifactError as first:
        try:
            return Program.load(path)
        except ArtifactError:
            raise first from None


@app.command()
def doctor(as_json: _Json = False) -> None:
    """List the outside tools: which are there, what each missing one costs, how to get it."""
    from daedal.sim.rtl.toolchain import probe

    records = probe()
    if as_json:
        print_json(
            [
                {
                    "name": record.name,
                    "version": record.version,
                    "needed_for": record.needed_for,
                    "how_to_get": record.how_to_get,
                }
                for record in records
            ]
        )
        return
    table = Table()
    for head in ("tool", "version", "needed for", "how to get it"):
        table.add_column(head)
    for record in records:
        found = escape(record.version) if record.version else "[red]missing[/red]"
        how = "" if record.version else record.how_to_get
        table.add_row(record.name, found, record.needed_for, how)
    _out.print(table)


def main() -> None:
    """Run the command line; users' mistakes end in one sentence and exit status 2."""
    try:
        app()
    except UserError as error:
        _fail(str(error), 2)
    except DaedalError as error:
        _fail(str(error), 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        reason = f"{error.filename!r} is not: {error.strerror}" if error.filename else str(error)
        _fail(f"files must be readable and writable; {reason}", 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(sentence: str, status: int) -> None:
    _err.print(f"[bold red]error:[/bold red] {escape(sentence)}")
    sys.exit(status)
