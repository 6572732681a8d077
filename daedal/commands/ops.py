"""``daedal ops``: the operators of ONNX models, and where each runs."""

from dataclasses import asdict

from daedal.commands.options import Json
from daedal.reports.console import make_console, print_json

__all__ = ["ops_command"]


def ops_command(as_json: Json = False) -> None:
    """List the operators that models may have: opsets, where they run, under which limits."""
    from daedal.compiler.supported import supported_operators
    from daedal.reports.operators import operators_table

    if as_json:
        print_json([asdict(item) for item in supported_operators()])
    else:
        make_console().print(operators_table())
