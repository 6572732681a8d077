"""What ``daedal run --check`` found, for people and as plain data."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from daedal.checking.layer_check import CheckedTensor, LayerCheck
from daedal.checking.tensor_difference import TensorDifference, ranges_text
from daedal.reports.console import print_tables
from daedal.reports.tables import plain_table

__all__ = ["check_json", "print_check"]

_AXES = {4: ("items", "channels", "rows", "columns")}


def check_json(check: LayerCheck) -> dict[str, Any]:
    """What a check found, as plain data."""
    first = check.first_difference
    return {
        "passed": check.passed,
        "items": len(check.result.profiles),
        "first_difference": None if first is None else _tensor_json(first),
        "tensors": [_tensor_json(item) for item in check.tensors],
        "overwritten": [
            {"tensor": name, "difference": item.to_json()} for name, item in check.overwritten
        ],
    }


def _tensor_json(item: CheckedTensor) -> dict[str, Any]:
    return {
        "launch": item.launch,
        "layer": None if item.layer is None else item.layer.name,
        "op": None if item.layer is None else item.layer.op,
        "tensor": item.tensor,
        "difference": None if item.difference is None else item.difference.to_json(),
    }


def print_check(console: Console, check: LayerCheck) -> None:
    """What a check found, for people."""
    compared = [item.difference for item in check.tensors if item.difference is not None]
    runs = len(check.result.profiles)
    amount = (
        f"{len(compared)} tensors ({sum(item.num_elements for item in compared):,} integers) of "
        f"{'one run' if runs == 1 else f'{runs} runs'}"
    )
    first = check.first_difference
    if first is not None:
        later = sum(item.differs for item in check.tensors) - 1
        console.print(f"check: {escape(_what(first))} differs from the integer reference")
        assert first.difference is not None, "it differs"
        _print_difference(console, first.difference)
        console.print(f"what comes before it is equal; of what comes after it, {later} differ")
    for name, difference in check.overwritten:
        console.print(
            f"check: tensor {escape(repr(name))} is wrong where tensors share memory, as in the "
            "artifact, and right where each has its own: one is written over while it is still read"
        )
        _print_difference(console, difference)
    if check.passed:
        console.print(f"check: {amount} equal the integer reference")
    unknown = [item.tensor for item in check.tensors if item.difference is None]
    if unknown:
        console.print(
            f"not compared, because the model has no such tensors: {escape(', '.join(unknown))}"
        )


def _what(item: CheckedTensor) -> str:
    if item.layer is None:
        return f"tensor {item.tensor!r}, which the host gives to launch {item.launch},"
    return (
        f"layer {item.layer.name} ({item.layer.op}) of launch {item.launch}, tensor {item.tensor!r}"
    )


def _print_difference(console: Console, difference: TensorDifference) -> None:
    names = _AXES.get(len(difference.shape), tuple(f"axis {k}" for k in range(9)))
    places = "; ".join(
        f"{name} {ranges_text(numbers)}"
        for name, numbers in zip(names, difference.places, strict=False)
    )
    console.print(
        f"{difference.num_different:,} of {difference.num_elements:,} elements "
        f"{list(difference.shape)} differ, by up to {difference.largest}: {escape(places)}"
    )
    table: Table = plain_table("", ("element", "expected", "found"), 1)
    table.title = None
    for item in difference.first:
        table.add_row(escape(str(item.index)), str(item.expected), str(item.found))
    print_tables(console, table)
