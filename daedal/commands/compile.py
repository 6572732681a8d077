"""``daedal compile``: a model becomes an artifact."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import (
    MEASURED,
    VARIANT_OPTION,
    Json,
    MemoryName,
    check_outputs,
    complete_target,
    parse_shapes,
    parse_states,
)
from daedal.common.errors import UserError
from daedal.common.files import check_output_folder
from daedal.reports.console import make_console, print_json, print_tables, show_progress

__all__ = ["compile_command"]

_out = make_console()
_err = make_console(stderr=True)


def compile_command(
    model: Annotated[
        Path, typer.Argument(help="An ONNX model: int8 QDQ, or any for targets cpu and gpu.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The artifact to write.")],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            autocompletion=complete_target,
            help="VARIANT or VARIANT+cpu, cpu for processors alone, or gpu; gpu:NAME,... for some "
            "architectures of GPUs.  [default: vta]",
        ),
    ] = None,
    variant: Annotated[
        str | None,
        VARIANT_OPTION,
    ] = None,
    cpu_level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="Compile the host's code for this level of processors; may be repeated. By "
            "default all levels of x86-64, and the best of this machine; for target gpu, none.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHAPE",
            help="The shape of an input that the model leaves open, as NAME=1x3x224x224; may be "
            "repeated.",
        ),
    ] = None,
    from_tensors: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="TENSOR", help="Start at this quantized tensor; may be repeated."
        ),
    ] = None,
    to_tensors: Annotated[
        list[str] | None,
        typer.Option(
            "--to", metavar="TENSOR", help="End at this quantized tensor; may be repeated."
        ),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT=OUTPUT",
            help="Keep INPUT in the device's memory between launches; OUTPUT are its new rows. "
            "A * stands for any text; may be repeated.",
        ),
    ] = None,
    all_on_accelerator: Annotated[
        bool,
        typer.Option(
            "--all-on-accelerator",
            help="Move no operator to the host because its transfer takes too long.",
        ),
    ] = False,
    host_rates: Annotated[
        str | None,
        typer.Option(
            metavar="RATES",
            autocompletion=lambda: ["default", MEASURED],
            help="The host's throughput, which decides whether transfers pay: default (fixed "
            "figures), measured (of this machine, once, and kept), or a JSON file.  "
            "[default: default]",
        ),
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Take schedules from this database of `daedal tune`.")
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            metavar="TYPE",
            autocompletion=lambda: ["float32", "float16", "bfloat16"],
            help="For target gpu: what float32 is rounded to where tensor cores multiply it: "
            "float32, float16 or bfloat16.",
        ),
    ] = "float32",
    memory: MemoryName = "ddr",
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", help="Do not keep the code of layers in the user's cache for next time."
        ),
    ] = False,
    dump_dir: Annotated[
        Path | None, typer.Option(help="Write the intermediate forms into this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile MODEL for an accelerator with its host, for a processor, or for GPUs."""
    from daedal.api import compile as compile_model
    from daedal.api import gpu_of_target, target_variant
    from daedal.compiler.artifact.host_code import best_levels, saved_levels
    from daedal.host.rates import DEFAULT, load_host_rates
    from daedal.inspection import run_cycles
    from daedal.reports.artifact import (
        artifact_json,
        cycles_line,
        program_tables,
        summary_lines,
    )
    from daedal.reports.costs import cost_lines
    from daedal.reports.host_code import code_lines

    check_outputs(output)
    shapes, states = parse_shapes(shape or ()), parse_states(state or ())
    if target is None and variant is None:
        variant = "vta"
    chosen = target_variant(variant, target)
    is_gpu = gpu_of_target(target) is not None
    if chosen is None and (all_on_accelerator or host_rates):
        raise UserError(
            "--all-on-accelerator and --host-rates need an accelerator, and target "
            f"{target!r} has none"
        )
    if all_on_accelerator and host_rates:
        raise UserError(
            "--all-on-accelerator moves no operator to the host, whatever the --host-rates; give "
            "one of both"
        )
    rates = load_host_rates(host_rates or DEFAULT)
    if records is not None and chosen is None and not is_gpu and not cpu_level:
        cpu_level = list(best_levels())  # records are of this processor
    if dump_dir is not None:
        check_output_folder(dump_dir)
    with show_progress(_err) as report:
        artifact = compile_model(
            model,
            None if target is not None else chosen,
            target=target,
            shapes=shapes,
            from_tensors=from_tensors or (),
            to_tensors=to_tensors or (),
            host=None if all_on_accelerator else rates,
            records=records,
            precision=precision,
            states=states,
            memory=memory,
            cache=not no_cache,
            cpu_levels=cpu_level or (None if is_gpu and chosen is None else saved_levels()),
            dump_dir=dump_dir,
            report=report,
        )
    artifact.save(output)
    summary = artifact_json(artifact)
    cycles = run_cycles(artifact)
    if cycles is not None:
        summary["cycles"] = cycles
    if as_json:
        print_json(summary)
        return
    print_tables(_out, *program_tables(artifact))
    for line in (*summary_lines(artifact), *code_lines(artifact), *cost_lines(artifact)):
        _out.print(escape(line))
    if cycles is not None:
        _out.print(escape(cycles_line(artifact, cycles, memory)))
    if is_gpu and chosen is None and not artifact.has_gpu_code:
        for why in dict.fromkeys(item.why for item in artifact.placements if item.why):
            _out.print(escape(f"on the processor: {why}"))
    what = "kernels for GPUs" if artifact.has_gpu_code else "machine code for processors"
    if chosen is not None:
        what = (
            f"{summary['instructions']:,} instructions, {summary['tokens']:,} tokens "
            f"for variant {summary['variant']} ({summary['fingerprint']})"
        )
    _out.print(escape(f"{output}: {what}; `daedal inspect` shows more"))
