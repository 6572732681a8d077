"""`host_seconds`: what the host takes for one run of a compiled model, by its rates.

Latencies are those of a whole run: cycles of the accelerator alone would make a variant look fast
that leaves layers to the host.
"""

from collections.abc import Sequence
from math import prod

import onnx

from daedal.artifact.artifact import Artifact, Launch
from daedal.artifact.parts import HostPart
from daedal.compiler.artifact.products import count_products
from daedal.compiler.targets.crossings import HostRates

__all__ = ["CLOCK_HZ", "host_seconds", "items_of"]

CLOCK_HZ = 100e6
"""Of the accelerator whose cycles `HostRates` count."""


def host_seconds(artifact: Artifact, rates: HostRates) -> float:
    """Starting the launches, moving their inputs and outputs, and computing the host's parts.

    The time of other targets is not known and not counted. Results without a static shape count as
    one element.
    """
    cycles = 0.0
    for part in artifact.parts:
        if isinstance(part, Launch):
            program = part.program
            moved = sum(spec.size_bytes for spec in (*program.inputs, *program.outputs))
            cycles += rates.launch_cycles + moved / rates.bytes_per_cycle
        elif isinstance(part, HostPart):
            cycles += _part_cycles(part, rates)
    return cycles / CLOCK_HZ


def items_of(artifact: Artifact) -> int:
    """How many items, such as images, one run takes: the first extent of all inputs and outputs.

    1 where they have no first extent in common.
    """
    values = (*artifact.inputs, *artifact.outputs)
    extents = {value.shape[0] if len(value.shape) > 1 else 1 for value in values}
    (items, *others) = extents or {1}
    return 1 if others else max(1, items)


def _part_cycles(part: HostPart, rates: HostRates) -> float:
    """The time of a part's operators, in cycles of the accelerator."""
    if not part.model:
        return 0.0  # it only permutes and pads, which the bytes of the launches count
    model = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(part.model))
    shapes = _shapes(model.graph)
    cycles = 0.0
    for node in model.graph.node:
        elements = sum(prod(shapes.get(name, ())) for name in node.output if name)
        macs = count_products(node, shapes.get) or 0
        cycles += macs / rates.macs_per_cycle + elements / rates.elements_per_cycle
    return cycles


def _shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """The static shapes of a graph's tensors, by name."""
    found = {item.name: tuple(item.dims) for item in graph.initializer}
    values: Sequence[onnx.ValueInfoProto] = (*graph.input, *graph.value_info, *graph.output)
    for value in values:
        extents = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(
            extent.HasField("dim_value") for extent in extents
        ):
            found[value.name] = tuple(extent.dim_value for extent in extents)
    return found
