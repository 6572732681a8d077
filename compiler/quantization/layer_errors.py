"""How much quantization changes each tensor of a network, over samples.

Input: the float network as it was before quantize nodes were inserted, and the quantized model,
which has the same names. Both run as a whole, so the error of a tensor includes those before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from daedal.compiler.quantization.calibration.float_runner import OpenModel, evaluate, make_runner
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.onnx_operators import VIEWS

__all__ = ["LayerError", "layer_errors"]

_MOVES = (*VIEWS, "Transpose")

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
    before: Network,
    quantized: onnx.ModelProto,
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel = evaluate,
) -> list[LayerError]:
    """Every quantized activation but reordered ones, in the network's order."""
    after = Network(quantized)
    found = list(_quantized(before, after))
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
        LayerError(name, op, bits, float(s / max(n, 1)), float(e / max(n, 1)))
        for (name, _, op, bits), s, e, n in zip(found, signal, noise, sizes, strict=True)
    ]


def _quantized(before: Network, after: Network) -> Iterator[tuple[str, str, str, int]]:
    """Tensor, its dequantized form, the operator that computes it, and its bits."""
    users, producers, clips = after.users(), before.producers(), after.producers()
    known = {*producers, *(item.name for item in before.inputs)}
    for node in after.nodes:
        if node.op_type != "QuantizeLinear":
            continue
        readers = [x for x in users.get(node.output[0], ()) if x.op_type == "DequantizeLinear"]
        read = readers[0].output[0] if readers else ""
        source = node.input[0]
        if source not in known and source in clips and clips[source].op_type == "Clip":
            source = clips[source].input[0]  # a term of a residual stream has bounds
        # An output of the model keeps its name, and its unquantized form has another one.
        name = source if source in known else read
        if not readers or name not in known:
            continue
        op = producers[name].op_type if name in producers else "input"
        if op in _MOVES:
            continue
        yield name, read, op, after.constants[node.input[2]].dtype.itemsize * 8
