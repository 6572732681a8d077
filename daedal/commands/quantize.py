"""``daedal quantize``: a float ONNX model and samples of its inputs to an int8 QDQ model."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import onnx
import typer
from rich.markup import escape

from daedal.commands.npz import load_arrays
from daedal.commands.options import Json, check_outputs
from daedal.isa.files import write_atomically
from daedal.reports.console import make_console, print_json, show_progress

__all__ = ["quantize_command"]


def quantize_command(
    model: Annotated[Path, typer.Argument(help="A float32 ONNX model.")],
    samples: Annotated[
        Path,
        typer.Option("--samples", "-s", help="A .npz of typical inputs by name, along axis 0."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The int8 model to write.")],
    method: Annotated[
        str, typer.Option(help="How ranges follow from samples: mse, percentile or minmax.")
    ] = "mse",
    as_json: Json = False,
) -> None:
    """Quantize MODEL to int8 (QDQ), so that `daedal compile` takes it."""
    from daedal.quantization import quantize

    check_outputs(output)
    arrays = load_arrays(samples)
    with show_progress(make_console(stderr=True)) as report:
        quantized = quantize(model, arrays, method=method, report=report)
    write_atomically(output, quantized)
    counts = Counter(node.op_type for node in onnx.ModelProto.FromString(quantized).graph.node)
    tensors = counts.pop("QuantizeLinear")
    counts.pop("DequantizeLinear")
    if as_json:
        print_json({"output": str(output), "quantized_tensors": tensors, "operators": counts})
        return
    listed = ", ".join(f"{count} {op_type}" for op_type, count in counts.most_common())
    make_console().print(escape(f"{output}: {tensors} tensors in int8; {listed}"))
