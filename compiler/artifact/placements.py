"""The report: where each node of a model runs, and why it does not run on the accelerator."""

from collections.abc import Callable, Mapping, Sequence

import onnx

from daedal.artifact.artifact import HostPart, Placement, TargetPart
from daedal.artifact.parts import Part
from daedal.compiler.artifact.products import count_products
from daedal.compiler.frontend.cut import ModelCutter, is_static

__all__ = ["place_nodes"]

_QUANTIZATION = ("DequantizeLinear", "QuantizeLinear")


def place_nodes(
    cutter: ModelCutter,
    parts: Sequence[Part],
    launched: Mapping[int, tuple[int, str]],
    on_host: Mapping[int, int],
    why_host: Callable[[onnx.NodeProto], str],
) -> tuple[Placement, ...]:
    """One placement for each node of the model.

    Parameters
    ----------
    parts : of the artifact.
    launched : the number of the part and the layer, by number of the model's node.
    on_host : the part of the host or a GPU, by number. A node in both mappings runs there,
        too. A node whose result is constant is computed when the part is compiled.
    why_host : why the host runs a node.
    """
    return tuple(
        _place(cutter, number, parts, launched, on_host, why_host)
        for number in range(len(cutter.nodes))
    )


def _place(
    cutter: ModelCutter,
    number: int,
    parts: Sequence[Part],
    launched: Mapping[int, tuple[int, str]],
    on_host: Mapping[int, int],
    why_host: Callable[[onnx.NodeProto], str],
) -> Placement:
    node = cutter.nodes[number]
    output = next((name for name in node.output if name), "")
    where, why, layer = "folded", "", ""
    part: int | None = None
    if number in on_host and output not in cutter.constants:
        part, why = on_host[number], why_host(node)
        computing = parts[part]
        on_gpu = isinstance(computing, HostPart) and computing.gpu is not None
        where = "gpu" if on_gpu else "host"
        _, layer = launched.get(number, (part, ""))
    elif number in launched and node.op_type not in _QUANTIZATION:
        part, layer = launched[number]
        computing = parts[part]
        where = computing.target if isinstance(computing, TargetPart) else "accelerator"
    return Placement(
        node=node.name or output,
        op=node.op_type,
        output=output,
        where=where,
        why=why,
        macs=count_products(node, lambda name: _shape(cutter, name)),
        part=part,
        layer=layer,
    )


def _shape(cutter: ModelCutter, name: str) -> tuple[int, ...] | None:
    """The static shape of a tensor, or None if unknown."""
    if name in cutter.initializers:
        return tuple(cutter.initializers[name].dims)
    value = cutter.types.get(name)
    if value is None or not is_static(value.type.tensor_type):
        return None
    return tuple(int(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
