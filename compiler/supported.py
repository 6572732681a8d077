"""What `daedal ops` lists: every operator of ONNX, from the tables of the importers, of the
expansions, and of what processors run."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import onnx

from daedal.compiler.cpu.support import processor_support
from daedal.compiler.frontend.operators.record import BY_TABLE
from daedal.compiler.frontend.operators.table import OPERATORS
from daedal.compiler.frontend.qoperators import EXPANSIONS
from daedal.compiler.frontend.reader import MIN_OPSET
from daedal.compiler.ops.onnx.table import ELEMENTWISE

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
    processor : what becomes of it on a processor, where the target is one or "host" is where it
        runs: a word of `compiler.cpu.support`.
    limits : conditions that a node must meet for `where`.
    """

    name: str
    first_opset: int
    last_opset: int | None
    where: str
    processor: str
    limits: str


def supported_operators() -> tuple[SupportedOperator, ...]:
    """The operators by name, those of ONNX's own domain first."""
    rows = {item.name: item for item in (*_standard(), *_expanded())}
    return tuple(sorted(rows.values(), key=lambda item: ("." in item.name, item.name)))


def _standard() -> Iterator[SupportedOperator]:
    """Operators of ONNX's own domain in opsets that models may have."""
    for name in sorted({schema.name for schema in _schemas()}):
        first, last = _opsets(name)
        if last is not None and last < MIN_OPSET:
            continue
        entry = OPERATORS.get(name)
        limits = BY_TABLE if name in ELEMENTWISE else ""
        where, limits = ("host", limits) if entry is None else (entry.where, entry.limits)
        yield SupportedOperator(name, first, last, where, processor_support(name), limits)


def _expanded() -> Iterator[SupportedOperator]:
    """Operators on quantized tensors; each runs where the operator it expands to runs."""
    for (domain, name), expansion in EXPANSIONS.items():
        if expansion.becomes == name and not domain:
            continue
        entry = OPERATORS.get(expansion.becomes)
        where = "host" if entry is None else entry.where
        first, last = (1, None) if domain else _opsets(name)
        full = f"{domain}.{name}" if domain else name
        processor = processor_support(expansion.becomes)
        yield SupportedOperator(full, first, last, where, processor, f"as {expansion.becomes}")


def _opsets(name: str) -> tuple[int, int | None]:
    """The oldest and the newest opset that has an operator of ONNX's own domain.

    A deprecated version, which onnx's checker refuses, may be the last one or, as that of
    GroupNormalization, come before another one.
    """
    schemas = [schema for schema in _schemas() if schema.name == name]
    valid = [schema.since_version for schema in schemas if not schema.deprecated]
    gone = [
        schema.since_version - 1
        for schema in schemas
        if schema.deprecated and schema.since_version > max(valid)
    ]
    return max(min(valid), MIN_OPSET), min(gone, default=None)


@cache
def _schemas() -> tuple[onnx.defs.OpSchema, ...]:
    """All versions of the operators of ONNX's own domain."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return tuple(schema for schema in schemas if not schema.domain)
