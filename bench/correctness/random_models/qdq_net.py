"""`QdqNet`: grows random graphs whose tensors are quantized, as exporters and hands write them.

Every operator reads dequantized tensors and is mostly followed by QuantizeLinear and
DequantizeLinear, whose type, scale and zero point are drawn: from what the tensor holds, from the
operand, or odd on purpose. Nothing is exact here: results are compared operator by operator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from bench.correctness.random_models.net import Array, Net, Unsuitable, Value
from daedal.compiler.graph.ops.foreign import evaluate_onnx

__all__ = ["OPSETS", "QdqNet", "Quantized"]

OPSETS = (11, 13, 13, 14, 17, 18, 19, 20, 21, 21, 22, 23)
NARROW = (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
"""Types that onnxruntime does not pass to and from Python."""
DISPUTED = frozenset({"AveragePool", "ConvTranspose", "MaxPool"})
"""Operators of which onnxruntime computes some cases otherwise than ONNX says."""
PER_CHANNEL = 13
"""First opset with scales per channel."""
WIDE_TYPES = 21
"""First opset with types of 4 and 16 bits."""
MAX_ELEMENTS = 6144


@dataclass(frozen=True)
class Quantized:
    """The integers of a dequantized tensor, and the constants that they are dequantized with."""

    integers: Value
    scale: Value
    zero: Value | None

    @property
    def is_byte(self) -> bool:
        """Whether they have 8 bits: ONNX's operators take others in newer versions alone."""
        return self.integers.array.dtype.itemsize == 1 and self.integers.array.dtype not in NARROW

    @property
    def operands(self) -> tuple[Value, ...]:
        """Scale and zero point, as both operators take them."""
        return (self.scale,) if self.zero is None else (self.scale, self.zero)


class QdqNet(Net):
    """Tensors and nodes so far; `ends` are the floats that layers read.

    Parameters
    ----------
    rng : for every choice.
    opset : version of the standard operator set.
    """

    def __init__(self, rng: np.random.Generator, opset: int) -> None:
        super().__init__(rng, opset, MAX_ELEMENTS)
        self.ends: list[Value] = []
        self.known: dict[str, Quantized] = {}
        """By the name of the dequantized tensor."""
        self.made: dict[str, Array] = {}
        """Constants by name."""
        self.unsigned = self.chance()
        """Whether most activations are uint8."""
        self.symmetric = self.chance(0.3)
        self.oddness = self.one_of((0.0, 0.1, 0.3))
        """How often scales and types are odd."""

    # What Net does for exact results

    def constant(self, array: Any, step: float | None = None) -> Value:
        value = super().constant(array, step)
        self.made[value.name] = value.array
        return value

    def _scaled(self, value: Value) -> Value:
        return value

    def _evaluated(self, node: onnx.NodeProto, operands: Sequence[Value]) -> list[Array]:
        if any(item.array.dtype in NARROW for item in operands):
            try:
                return evaluate_onnx(node, self.opset, {item.name: item.array for item in operands})
            except Exception as error:  # the evaluator raises many kinds
                self.refused.append(f"{node.op_type}: {error}")
                raise Unsuitable from error
        arrays = super()._evaluated(node, operands)
        if node.op_type in DISPUTED:
            self.require([array.shape for array in arrays] == self._inferred(node, operands))
        return arrays

    def _inferred(self, node: onnx.NodeProto, operands: Sequence[Value]) -> list[tuple[int, ...]]:
        """The shapes that ONNX says the results have."""
        infos = [
            helper.make_tensor_value_info(
                item.name, helper.np_dtype_to_tensor_dtype(item.array.dtype), item.shape
            )
            for item in operands
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output]
        graph = helper.make_graph([node], "node", infos, results)
        opsets = [helper.make_opsetid("", self.opset)]
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets))
        return [
            tuple(dim.dim_value for dim in item.type.tensor_type.shape.dim)
            for item in model.graph.output
        ]

    # Choices

    def odd(self, share: float = 1.0) -> bool:
        """Whether something unusual is drawn here."""
        return self.chance(self.oddness * share)

    def end(self, suits: Callable[[Value], bool] = lambda _: True) -> Value:
        """A tensor of any rank for a layer, rather a new one. Raises Unsuitable."""
        found = [value for value in self.ends if value.rank and suits(value)]
        self.require(bool(found))
        return found[-1] if self.chance(0.6) else self.one_of(found)

    def partner(self, x: Value, *, broadcast: bool = False) -> Value:
        """Another operand for `x`, of the same shape, or one that is broadcast to it."""
        found = [value for value in self.ends if value.shape == x.shape]
        if broadcast and self.chance(0.3):
            found = [value for value in self.ends if _broadcasts(value.shape, x.shape)]
        self.require(bool(found))
        return self.one_of(found)

    def number(self, low: float, high: float) -> Value:
        """A constant float, as a scalar or of one element; sometimes quantized, too."""
        array = np.float32(self.real(low, high))
        value = self.constant(array if self.chance(0.7) else np.array([array]))
        return self.fake_constant(value) if self.chance(0.4) else value

    # Quantization

    def integer_input(self, shape: Sequence[int]) -> None:
        """An input of the model that is quantized already."""
        dtype: Any = np.uint8 if self.unsigned else np.int8
        info = np.iinfo(dtype)
        q = Value(f"x{len(self.feeds)}", self.rng.integers(info.min, info.max, shape, dtype, True))
        self.feeds[q.name] = q.array
        self.values.append(q)
        zero = self.integer(info.min, info.max)
        self.dequantized(q, *self._constants(np.float32(1 / 64), np.array(zero, dtype)))

    def quantized(self, x: Value, like: Value | None = None) -> Value:
        """`x` with its scale, or that of `like`, behind it: what layers read next."""
        if self.opset >= PER_CHANNEL and x.rank >= 2 and self.odd(0.2):
            return self._by_channel(x)
        operands = None
        if like is not None and like.name in self.known:
            operands = self.known[like.name].operands
        if operands is None:
            operands = self._parameters(x)
        return self.dequantized(self.one("QuantizeLinear", x, *operands), *operands)

    def dequantized(self, q: Value, scale: Value, zero: Value | None = None) -> Value:
        """A float of the integers `q`; sometimes quantized a second time, or twice dequantized."""
        operands = (scale,) if zero is None else (scale, zero)
        end = self.one("DequantizeLinear", q, *operands)
        if self.odd(0.5):
            again = self.chance()
            if again:
                q = self.one("QuantizeLinear", end, *operands)
            end = self.one("DequantizeLinear", q, *operands)
        self.known[end.name] = Quantized(q, scale, zero)
        self.ends.append(end)
        return end

    def _by_channel(self, x: Value) -> Value:
        """An activation with a scale of each channel."""
        spread = np.exp(self.normal((x.shape[1],), 0.3))
        scale = self.constant((spread * (x.largest or 1.0) / 127).astype(np.float32))
        zero = self.constant(np.zeros(x.shape[1], np.int8))
        q = self.op("QuantizeLinear", [x, scale, zero], axis=1)[0]
        end = self.op("DequantizeLinear", [q, scale, zero], axis=1)[0]
        self.ends.append(end)
        return end

    def _type(self) -> Any:
        """Of activations."""
        if self.opset >= WIDE_TYPES and self.odd(0.4):
            return self.one_of((np.int16, np.uint16, *(item.type for item in NARROW)))
        return np.uint8 if self.unsigned != self.odd() else np.int8

    def _parameters(self, x: Value) -> tuple[Value, ...]:
        """Scale and zero point that fit `x`, more or less."""
        dtype = self._type()
        info = ml_dtypes.iinfo(dtype)
        low, high = min(0.0, float(x.array.min())), max(0.0, float(x.array.max()))
        span = (high - low) or 1.0
        if self.odd():
            span *= self.one_of((0.1, 0.5, 4.0, 100.0))
        if self.symmetric != self.odd():
            zero, scale = (
                (info.max + info.min + 1) // 2,
                2 * max(-low, high) / (info.max - info.min),
            )
            scale = scale or 1.0
        else:
            scale = span / (info.max - info.min)
            zero = int(np.clip(round(info.min - low / scale), info.min, info.max))
        if self.odd():
            zero = self.one_of((info.min, info.max, 0))
        if self.odd():
            scale = 2.0 ** round(np.log2(scale))
        return self._constants(np.float32(scale), np.array(zero, dtype))

    def _constants(self, scale: Any, zero: Array) -> tuple[Value, ...]:
        one = self.opset >= PER_CHANNEL and self.odd(0.3)
        size = self.constant(np.array([scale]) if one else scale)
        if self.odd(0.3):
            size = self.one("Identity", size)
            self.made[size.name] = size.array
        if zero.dtype == np.uint8 and zero == 0 and self.chance(0.3):
            return (size,)
        return size, self.constant(zero.reshape(1) if one else zero)

    def fake_constant(self, value: Value) -> Value:
        """A dequantized constant near `value`: integers, or floats with both operators behind."""
        largest = value.largest or 1.0
        scale = self.constant(np.float32(largest / 127))
        zero = self.constant(np.array(0, np.int8))
        if self.chance(0.3):
            q = self.one("QuantizeLinear", value, scale, zero)
        else:
            integers = np.round(value.array / scale.array).astype(np.int8)
            q = self.constant(np.clip(integers, -127, 127))
        return self.one("DequantizeLinear", q, scale, zero)

    def weight_of(self, shape: Sequence[int], fan_in: int, axis: int) -> Value:
        """Dequantized weights: per tensor or per channel along `axis`, of several types."""
        values = self.normal(shape, fan_in**-0.5)
        dtype: Any = np.int8
        if self.odd(0.6):
            narrow = [item.type for item in NARROW] if self.opset >= WIDE_TYPES else []
            dtype = self.one_of((np.uint8, np.uint8, *narrow))
        info = ml_dtypes.iinfo(dtype)
        channels = shape[axis] if self.opset >= PER_CHANNEL and self.chance(0.6) else 1
        spread = np.exp(self.normal((channels,), 0.4)) if channels > 1 else np.ones(1)
        scale = (np.abs(values).max() * spread / info.max).astype(np.float32)
        middle = 0 if info.min < 0 else (info.max + 1) // 2
        zero = np.full(channels, middle + (self.integer(-3, 3) if self.odd(0.4) else 0))
        along = np.reshape(scale, [-1 if at == axis else 1 for at in range(len(shape))])
        if channels == 1:
            along, scale, zero = scale[0], scale[0], zero[0]
            attributes = {}
        else:
            attributes = {"axis": axis - len(shape) if self.chance(0.2) else axis}
            attributes = {} if axis == 1 and self.chance() else attributes
        center = np.reshape(zero, np.shape(along))
        integers = np.clip(np.round(values / along) + center, info.min, info.max)
        size, middle_of = self.constant(scale), self.constant(np.asarray(zero).astype(dtype))
        if dtype == np.int8 and self.odd(0.5):
            floats = self.constant(((integers - center) * along).astype(np.float32))
            q = self.one("QuantizeLinear", floats, size, middle_of, **attributes)
        else:
            q = self.constant(integers.astype(dtype))
        operands = [q, size, middle_of]
        if not np.any(zero) and self.chance(0.3):
            operands.pop()
        return self.op("DequantizeLinear", operands, **attributes)[0]

    def bias_of(self, count: int, x: Value, weight: Value, shape: Sequence[int] = ()) -> Value:
        """A bias: int32 in the scale of the products, int32 in another one, or floats."""
        values = self.normal(shape or (count,), 0.3)
        if self.chance(0.3):
            return self.constant(values)
        node = next(node for node in self.nodes if weight.name in node.output)
        scale = np.array(self.made[node.input[1]], np.float32)
        if self.opset < PER_CHANNEL or scale.size not in (1, count):
            return self.constant(values)
        if x.name in self.known:
            scale = scale * np.float32(self.known[x.name].scale.array.reshape(-1)[0])
        if self.odd():
            scale = scale * np.float32(self.one_of((0.5, 3.0, 16.0)))
        integers = np.round(values / scale)
        self.require(float(np.abs(integers).max()) < 2**30)
        attributes = {"axis": 0} if scale.size > 1 else {}
        integers_of = self.constant(integers.astype(np.int32))
        return self.op("DequantizeLinear", [integers_of, self.constant(scale)], **attributes)[0]

    # The model

    def quantized_model(self) -> onnx.ModelProto:
        """All that was built; what nothing reads, and some others, are outputs."""
        self.values = [value for value in self.values if value.array.dtype not in NARROW]
        model = self.model()
        read = {name for node in model.graph.node for name in node.input}
        for value in self.known.values():
            q = value.integers
            if q.name in read and self.chance(0.03) and q.array.dtype not in NARROW:
                kind = helper.np_dtype_to_tensor_dtype(q.array.dtype)
                if q.name not in {item.name for item in model.graph.output}:
                    info = helper.make_tensor_value_info(q.name, kind, q.array.shape)
                    model.graph.output.append(info)
        if self.opset >= WIDE_TYPES:
            model.ir_version = 10
        return model


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False
