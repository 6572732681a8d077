"""``daedal quantize``: a float ONNX model and samples of its inputs to an int8 QDQ model."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from daedal.commands.npz import load_arrays
from daedal.commands.options import Json, check_outputs
from daedal.common.files import write_atomically
from daedal.reports.console import make_console, print_json, print_tables, show_progress
from daedal.reports.tables import plain_table

if TYPE_CHECKING:
    import onnx

    from daedal.compiler.quantization.layer_errors import LayerError
    from daedal.compiler.quantization.narrow_layers import LayerWeights

__all__ = ["quantize_command"]


def quantize_command(
    model: Annotated[Path, typer.Argument(help="A float32 ONNX model.")],
    samples: Annotated[
        Path,
        typer.Option("--samples", "-s", help="A .npz of typical inputs by name, along axis 0."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The int8 model to write.")],
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            autocompletion=lambda: ["mse", "percentile", "minmax"],
            help="How ranges follow from samples: mse (the least squared error), percentile (all "
            "but the largest 0.01 %), or minmax (all).",
        ),
    ] = "mse",
    separate_attention: Annotated[
        bool,
        typer.Option(
            "--separate-attention",
            help="Quantize the scores of attention, for variants without lane reductions; without "
            "it, they stay on the chip.",
        ),
    ] = False,
    show_errors: Annotated[
        bool, typer.Option("--errors", help="Show how much quantization changes each tensor.")
    ] = False,
    weights: Annotated[
        str,
        typer.Option(
            metavar="int8|int4",
            autocompletion=lambda: ["int8", "int4"],
            help="Bits of weights: 8, or 4 in layers where that changes the outputs little.",
        ),
    ] = "int8",
    weight_error: Annotated[
        float | None,
        typer.Option(
            help="How much weights of 4 bits may change the outputs, as a share of their deviation."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Keep this node in float; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Quantize MODEL to int8 (QDQ), so that `daedal compile` takes it."""
    import onnx  # takes half a second, which --help and completion need not

    from daedal.quantization import quantize

    check_outputs(output)
    arrays = load_arrays(samples)
    errors: list[LayerError] = []
    layers: list[LayerWeights] = []
    with show_progress(make_console(stderr=True)) as report:
        quantized = quantize(
            model,
            arrays,
            method=method,
            fuse_attention=not separate_attention,
            report=report,
            errors=errors.extend if show_errors else None,
            weights=weights,
            **({} if weight_error is None else {"weight_error": weight_error}),
            layers=layers.extend,
            exclude=exclude or (),
        )
    write_atomically(output, quantized)
    graph = onnx.ModelProto.FromString(quantized).graph
    counts = Counter(node.op_type for node in graph.node)
    tensors, wide = counts.pop("QuantizeLinear"), _count_wide(graph)
    counts.pop("DequantizeLinear")
    if as_json:
        found = {"quantized_tensors": tensors, "tensors_of_16_bits": wide, "operators": counts}
        if show_errors:
            found["errors"] = [{**asdict(item), "snr_db": item.snr_db} for item in errors]
        if layers:
            found["weights"] = [
                {"tensor": item.tensor, "bits": item.bits, "count": item.count, "error": item.error}
                for item in layers
            ]
        print_json({"output": str(output), **found})
        return
    listed = ", ".join(f"{count} {op_type}" for op_type, count in counts.most_common())
    kinds = f"{tensors - wide} tensors in int8" + (f", {wide} in int16" if wide else "")
    excluded = f"; kept in float: {', '.join(dict.fromkeys(exclude))}" if exclude else ""
    console = make_console()
    console.print(escape(f"{output}: {kinds}; {listed}{excluded}"))
    if layers:
        print_tables(console, _layers_table(layers))
        console.print(escape(_saved(layers)))
    if show_errors:
        print_tables(console, _errors_table(errors))


def _layers_table(layers: "list[LayerWeights]") -> Table:
    """A row for each layer with weights, in the network's order."""
    heads = ("layer", "bits", "weights", "bytes saved", "4 bits change the outputs by")
    table = plain_table("", heads, 1)
    for item in layers:
        error = "" if item.error is None else f"{item.error:.2%}"
        saved = f"{item.saved_bytes:,}" if item.saved_bytes else ""
        table.add_row(escape(item.tensor), str(item.bits), f"{item.count:,}", saved, error)
    return table


def _saved(layers: "list[LayerWeights]") -> str:
    narrow = [item for item in layers if item.saved_bytes]
    saved, every = sum(item.saved_bytes for item in layers), sum(item.count for item in layers)
    return (
        f"{len(narrow)} of {len(layers)} layers have weights of 4 bits; "
        f"they save {saved:,} of {every:,} bytes"
    )


def _errors_table(errors: "list[LayerError]") -> Table:
    """A row for each tensor, in the network's order."""
    table = plain_table("", ("tensor", "operator", "bits", "noise", "signal to noise"), 2)
    for item in errors:
        share = (item.noise / item.signal) ** 0.5 if item.signal else 0.0
        table.add_row(
            escape(item.tensor), item.op, str(item.bits), f"{share:.2%}", f"{item.snr_db:.1f} dB"
        )
    return table


def _count_wide(graph: "onnx.GraphProto") -> int:
    """Tensors that are quantized to 16 bits."""
    import onnx

    kinds = {item.name: item.data_type for item in graph.initializer}
    nodes = (node for node in graph.node if node.op_type == "QuantizeLinear")
    return sum(kinds.get(node.input[2]) == onnx.TensorProto.INT16 for node in nodes)
