"""How much quantization changes each tensor of a network, over samples.

Input: the float model as it was before quantize nodes were inserted, and the quantized one, which
has the same names. Both run as a whole, so the error of a tensor includes those before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.dataflow import producer_of
from daedal.compiler.graph.graph import Array, Graph
from daedal.compiler.quantization.calibration.float_runner import OpenModel, evaluate, make_runner
from daedal.compiler.quantization.float_model import FloatModel

__all__ = ["LayerError", "layer_errors"]

MOST_SAMPLES = 16
"""That are enough for ratios of whole tensors."""


@dataclass(frozen=True)
class LayerError:
    """A quantized tensor.

    Attributes
    ----------
    op : the operator that computes it; "input" for an input.
    bits : that it has.
    signal : mean square of its real values.
    noise : mean square of their differences from the dequantized ones.
    """

    tensor: str
    op: str
    bits: int
    signal: float
    noise: float

    @property
    def snr_db(self) -> float:
        """Signal-to-noise ratio; infinite for a tensor without an error."""
        if not self.noise:
            return float("inf")
        return float(10 * np.log10(max(self.signal, 1e-300) / self.noise))


def layer_errors(
    before: FloatModel,
    after: FloatModel,
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel = evaluate,
) -> list[LayerError]:
    """Every quantized activation but reordered ones, in the model's order."""
    operators = {x: node.op_type for node in before.to_onnx().graph.node for x in node.output}
    found = list(_quantized(before.graph, after.graph))
    run = make_runner(before, [name for name, *_ in found], open_model)
    run_quantized = make_runner(after, [read for _, read, *_ in found], open_model)
    signal, noise, sizes = (np.zeros(len(found)) for _ in range(3))
    for feeds in samples[:MOST_SAMPLES]:
        real, rounded = run(feeds), run_quantized(feeds)
        for number, (name, read, *_) in enumerate(found):
            values = real[name].astype(np.float64)
            signal[number] += np.square(values).sum()
            noise[number] += np.square(values - rounded[read]).sum()
            sizes[number] += values.size
    return [
        LayerError(
            name, operators.get(name, "input"), bits, float(s / max(n, 1)), float(e / max(n, 1))
        )
        for (name, _, bits), s, e, n in zip(found, signal, noise, sizes, strict=True)
    ]


def _quantized(before: Graph, after: Graph) -> Iterator[tuple[str, str, int]]:
    """Tensor, its dequantized form, and its bits."""
    known = {*before.producers, *before.inputs}
    for node in after.nodes:
        if node.op != "quantize":
            continue
        (reader, *_) = after.users[node.output]
        source = node.inputs[0]
        clip = producer_of(after, source, ("clip",))
        if source not in known and clip is not None:
            source = clip.inputs[0]  # a term of a residual stream has bounds
        # An output of the model keeps its name, and its unquantized form has another one.
        name = source if source in known else reader.output
        if name in known and producer_of(before, name, ("reshape", "transpose")) is None:
            bits = np.dtype(after.types[node.output].dtype).itemsize * 8
            yield name, reader.output, bits
