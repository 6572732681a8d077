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
    fuse_attention: Annotated[
        bool,
        typer.Option(
            "--fuse-attention/--separate-attention",
            help="Keep the scores of attention on chip, or quantize them, for variants without "
            "lane reductions.",
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Quantize MODEL to int8 (QDQ), so that `daedal compile` takes it."""
    from daedal.quantization import quantize

    check_outputs(output)
    arrays = load_arrays(samples)
    with show_progress(make_console(stderr=True)) as report:
        quantized = quantize(
            model, arrays, method=method, fuse_attention=fuse_attention, report=report
        )
    write_atomically(output, quantized)
    graph = onnx.ModelProto.FromString(quantized).graph
    counts = Counter(node.op_type for node in graph.node)
    tensors, wide = counts.pop("QuantizeLinear"), _count_wide(graph)
    counts.pop("DequantizeLinear")
    if as_json:
        found = {"quantized_tensors": tensors, "tensors_of_16_bits": wide, "operators": counts}
        print_json({"output": str(output), **found})
        return
    listed = ", ".join(f"{count} {op_type}" for op_type, count in counts.most_common())
    kinds = f"{tensors - wide} tensors in int8" + (f", {wide} in int16" if wide else "")
    make_console().print(escape(f"{output}: {kinds}; {listed}"))


def _count_wide(graph: onnx.GraphProto) -> int:
    """Tensors that are quantized to 16 bits."""
    kinds = {item.name: item.data_type for item in graph.initializer}
    nodes = (node for node in graph.node if node.op_type == "QuantizeLinear")
    return sum(kinds.get(node.input[2]) == onnx.TensorProto.INT16 for node in nodes)
