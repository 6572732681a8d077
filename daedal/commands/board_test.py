"""``daedal board-test``: is a connected board well?"""

from pathlib import Path
from typing import Annotated

import typer

from daedal.commands.options import Json
from daedal.isa.variant import load_variant
from daedal.reports.console import make_console, print_json, show_progress

__all__ = ["board_test_command"]


def board_test_command(
    variant: Annotated[str, typer.Argument(help="The variant of the bitstream on the board.")],
    device: Annotated[
        str, typer.Option(metavar="uart|uio", help="How the board is connected.")
    ] = "uart",
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the device as NAME=VALUE: for uart, port=/dev/ttyUSB0.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="An int8 ONNX model to run: every byte must be the simulator's."),
    ] = None,
    programs: Annotated[int, typer.Option(min=0, max=10_000, help="Random programs.")] = 20,
    inputs: Annotated[int, typer.Option(min=1, max=1000, help="Random inputs of the model.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    as_json: Json = False,
) -> None:
    """Test a connected board: identity, memory (its contents are lost), random programs, a network.

    The exit status is 1 if something is wrong; the report says what to look at.
    """
    from daedal.boards.checks import check_board
    from daedal.devices import takes_option, text_options
    from daedal.reports.board_test import board_test_json, print_board_test

    machine = load_variant(variant)
    options = text_options(device, option or ())
    with show_progress(make_console(stderr=True)) as progress:
        if takes_option(device, "report"):
            options["report"] = progress
        report = check_board(
            machine,
            device,
            options,
            model,
            num_programs=programs,
            num_inputs=inputs,
            seed=seed,
            progress=progress,
        )
    if as_json:
        print_json(board_test_json(report))
    else:
        print_board_test(make_console(), report)
    if not report.passed:
        raise typer.Exit(1)
