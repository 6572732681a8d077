"""What `daedal ops` lists: every operator that the compiler knows, from the tables of its
importers and expansions."""

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from daedal.compiler.frontend.operators.table import OPERATORS
from daedal.compiler.frontend.qoperators import EXPANSIONS
from daedal.compiler.frontend.reader import MIN_OPSET

__all__ = ["SupportedOperator", "supported_operators"]


@dataclass(frozen=True)
class SupportedOperator:
    """An operator of a model.

    Parameters
    ----------
    name : with its domain, if that is not ONNX's.
    first_opset, last_opset : of its domain; the last one is None if it is still current.
    where : where it runs between quantized tensors: "accelerator", "host", or "folded" if no work
        is left.
    limits : conditions that a node must meet for that.
    """

    name: str
    first_opset: int
    last_opset: int | None
    where: str
    limits: str


def supported_operators() -> tuple[SupportedOperator, ...]:
    """The operators by name, those of ONNX's own domain first."""
    return (*_imported(), *_expanded())


def _imported() -> Iterator[SupportedOperator]:
    for name, entry in OPERATORS.items():
        yield SupportedOperator(name, *_opsets(name), entry.where, entry.limits)


def _expanded() -> Iterator[SupportedOperator]:
    """Operators on quantized tensors; each runs where the operator it expands to runs."""
    for (domain, name), expansion in EXPANSIONS.items():
        if expansion.becomes == name and not domain:
            continue
        entry = OPERATORS.get(expansion.becomes)
        where = "host" if entry is None else entry.where
        first, last = (1, None) if domain else _opsets(name)
        full = f"{domain}.{name}" if domain else name
        yield SupportedOperator(full, first, last, where, f"as {expansion.becomes}")


def _opsets(name: str) -> tuple[int, int | None]:
    """The oldest and the newest opset that has an operator of ONNX's own domain."""
    schemas = [
        schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == name and not schema.domain
    ]
    first = min(schema.since_version for schema in schemas)
    gone = [schema.since_version - 1 for schema in schemas if schema.deprecated]
    return max(first, MIN_OPSET), min(gone, default=None)
