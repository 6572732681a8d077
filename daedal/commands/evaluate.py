"""``daedal evaluate``: how good a model is on the user's data."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from daedal.commands.npz import load_arrays
from daedal.commands.options import Json
from daedal.common.errors import UserError
from daedal.reports.console import make_console, print_json, print_tables, show_progress
from daedal.reports.tables import plain_table

if TYPE_CHECKING:  # compiler and devices load slowly, and other commands need none
    from daedal.evaluation import Accuracy, Evaluation

__all__ = ["evaluate_command"]


def evaluate_command(
    model: Annotated[Path, typer.Argument(help="An ONNX model, or a .daedal artifact.")],
    data: Annotated[
        Path, typer.Option("--data", "-d", help="A .npz of inputs by name, along axis 0.")
    ],
    against: Annotated[
        Path | None,
        typer.Option(help="Another model or artifact, such as the float model, to compare with."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The array of DATA that has the right classes."),
    ] = None,
    scores: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The output that has the scores, if there are several."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run MODEL on data: accuracy by labels, and differences from another model.

    ONNX models run on this processor, artifacts on the functional simulator.
    """
    from daedal.evaluation import evaluate

    arrays = load_arrays(data)
    classes = None
    if labels is not None:
        if labels not in arrays:
            raise UserError(
                f"--labels must name an array of {str(data)!r}, one of "
                f"{', '.join(map(repr, arrays))}, not {labels!r}"
            )
        classes = arrays.pop(labels)
    if not arrays:
        raise UserError(f"{str(data)!r} must have the model's inputs, and has none")
    with show_progress(make_console(stderr=True)) as report:
        found = evaluate(
            model, arrays, reference=against, labels=classes, output=scores, report=report
        )
    if as_json:
        print_json(_record(found))
    else:
        _print(make_console(), found, model, against)


def _record(found: "Evaluation") -> dict[str, Any]:
    record = asdict(found)
    for item, output in zip(record["outputs"], found.outputs, strict=True):
        # JSON has no infinity.
        item["snr_db"] = output.snr_db if math.isfinite(output.snr_db) else None
    for name in ("accuracy", "reference_accuracy"):
        accuracy = getattr(found, name)
        if accuracy is not None:
            record[name] |= {"share": accuracy.share, "error": accuracy.error}
    return record


def _print(console: Console, found: "Evaluation", model: Path, against: Path | None) -> None:
    compared = "" if against is None else f", {model.name} against {against.name}"
    console.print(escape(f"{found.items:,} items{compared}"))
    if found.outputs:
        heads = ["output", "signal to noise", "largest difference"]
        has_classes = any(item.same_class is not None for item in found.outputs)
        table = plain_table("", [*heads, "same class"] if has_classes else heads, 1)
        for item in found.outputs:
            same = "" if item.same_class is None else f"{item.same_class:.2%}"
            signal, largest = f"{item.snr_db:.1f} dB", f"{item.largest:.4g}"
            if item.equal is not None:
                signal, largest = f"{item.equal:.2%} equal", ""
            table.add_row(escape(item.name), signal, largest, *([same] if has_classes else []))
        print_tables(console, table)
    if found.accuracy is not None:
        table = plain_table("", ("model", "right", "accuracy", "standard error"), 1)
        table.add_row(escape(model.name), *_cells(found.accuracy))
        if against is not None and found.reference_accuracy is not None:
            table.add_row(escape(against.name), *_cells(found.reference_accuracy))
        print_tables(console, table)
        if against is not None:
            console.print(
                escape(
                    f"right in one alone: {found.only_model} in {model.name}, "
                    f"{found.only_reference} in {against.name}"
                )
            )


def _cells(accuracy: "Accuracy") -> tuple[str, str, str]:
    share, error = accuracy.share, accuracy.error
    return f"{accuracy.right:,} of {accuracy.count:,}", f"{share:.2%}", f"{error:.2%}"
