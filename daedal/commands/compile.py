"""``daedal compile``: a model becomes an artifact."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json, Memory, VariantName, check_outputs
from daedal.isa.errors import TuningError
from daedal.isa.files import check_output_folder
from daedal.reports.console import make_console, print_json, print_tables, show_progress

if TYPE_CHECKING:
    from daedal.compiler.space import Config

__all__ = ["compile_command"]

_out = make_console()
_err = make_console(stderr=True)


def compile_command(
    model: Annotated[Path, typer.Argument(help="An int8 QDQ ONNX model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The artifact to write.")],
    variant: VariantName = "vta",
    from_tensors: Annotated[
        list[str] | None,
        typer.Option("--from", help="Start at this quantized tensor; may be repeated."),
    ] = None,
    to_tensors: Annotated[
        list[str] | None,
        typer.Option("--to", help="End at this quantized tensor; may be repeated."),
    ] = None,
    all_on_accelerator: Annotated[
        bool,
        typer.Option(
            "--all-on-accelerator",
            help="Move no operator to the host because its transfer takes too long.",
        ),
    ] = False,
    records: Annotated[
        Path | None, typer.Option(help="Take schedules from this database of `daedal tune`.")
    ] = None,
    memory: Annotated[
        Memory, typer.Option(help="With --records: the memory that was tuned for.")
    ] = Memory.ddr,
    cache: Annotated[
        bool, typer.Option(help="Keep the code of layers in the user's cache for the next time.")
    ] = True,
    dump_dir: Annotated[
        Path | None, typer.Option(help="Write the intermediate forms into this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile MODEL for a variant into one program."""
    from daedal.api import compile as compile_model
    from daedal.compiler.crossings import DEFAULT_HOST
    from daedal.reports.artifact import artifact_json, program_tables, summary_lines
    from daedal.reports.costs import cost_lines

    check_outputs(output)
    configs = None if records is None else _configs(records, model, variant, memory.value)
    if dump_dir is not None:
        check_output_folder(dump_dir)
    with show_progress(_err) as report:
        artifact = compile_model(
            model,
            variant,
            from_tensors=from_tensors or (),
            to_tensors=to_tensors or (),
            host=None if all_on_accelerator else DEFAULT_HOST,
            configs=configs,
            cache=cache,
            dump_dir=dump_dir,
            report=report,
        )
    artifact.save(output)
    summary = artifact_json(artifact)
    if as_json:
        print_json(summary)
        return
    print_tables(_out, *program_tables(artifact))
    for line in (*summary_lines(artifact), *cost_lines(artifact)):
        _out.print(escape(line))
    _out.print(
        escape(
            f"{output}: {summary['instructions']:,} instructions, {summary['tokens']:,} tokens "
            f"for variant {summary['variant']} ({summary['fingerprint']}); "
            "`daedal inspect` tells more"
        )
    )


def _configs(records: Path, model: Path, variant: str, memory: str) -> Mapping[str, "Config"]:
    """The best recorded configurations.

    Raises TuningError unless `records` is a database with records of the variant and the memory.
    """
    from daedal.compiler.tune.database import Database
    from daedal.compiler.version import compiler_version
    from daedal.isa.variant import load_variant
    from daedal.tuning.selection import check_recorded, recorded_configs

    if not records.is_file():
        raise TuningError(
            f"records must be a database that `daedal tune` made, and {str(records)!r} is none"
        )
    chosen = load_variant(variant)
    with Database(records, kit=compiler_version()) as database:
        check_recorded(database, chosen, memory, records)
        return recorded_configs(database, chosen, memory, model)
