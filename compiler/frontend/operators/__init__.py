"""Importer functions by ONNX operator, one module per family, and the table of all of them."""

from daedal.compiler.frontend.operators.record import Importer
from daedal.compiler.frontend.operators.table import OPERATORS

__all__ = ["find_importer"]


def find_importer(op_type: str) -> Importer | None:
    """The importer of an operator of the standard domain; None: its nodes stay as they are."""
    found = OPERATORS.get(op_type)
    return None if found is None else found.importer
