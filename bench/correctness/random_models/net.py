"""`Net`: grows a random ONNX graph node by node; the value of every tensor is known.

Values stay near 1: a result that is much larger or smaller is scaled by a power of two. Operators
that jump (Round, Less, QuantizeLinear) read `exact` tensors only, so a last bit never decides.
Every node is evaluated as it is added: by onnxruntime, or by ONNX's reference evaluator where sums
of integer products would depend on the processor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from daedal.checking.onnxruntime_session import INTEGER_PRODUCTS, open_session
from daedal.compiler.graph.ops.foreign import evaluate_onnx

__all__ = ["Array", "Net", "Unsuitable", "Value", "on_grid"]

Array = npt.NDArray[Any]
T = TypeVar("T")

EXACT_SUM = 2.0**24
"""Float32 has all integers below."""


class Unsuitable(Exception):
    """No tensor of the graph fits the operator that was drawn."""


@dataclass(frozen=True)
class Value:
    """A tensor.

    Attributes
    ----------
    exact : whether every implementation computes the same bits.
    step : all elements are multiples of this power of two; None: of none that is known.
    """

    name: str
    array: Array
    exact: bool = False
    step: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def rank(self) -> int:
        return self.array.ndim

    @property
    def is_float(self) -> bool:
        return self.array.dtype == np.float32

    @property
    def largest(self) -> float:
        return float(np.abs(self.array).max())


def on_grid(array: Array, step: float) -> npt.NDArray[np.float32]:
    """The nearest multiples of `step`."""
    return (np.round(array / step) * step).astype(np.float32)


class Net:
    """Tensors and nodes so far.

    Parameters
    ----------
    rng : for every choice.
    opset : version of the standard operator set.
    max_elements : of a tensor.
    scaled : whether results are kept near 1.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        opset: int,
        max_elements: int = 4096,
        *,
        scaled: bool = True,
    ) -> None:
        self.rng, self.opset, self.max_elements, self._scales = rng, opset, max_elements, scaled
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.feeds: dict[str, Array] = {}
        self.values: list[Value] = []
        self.units: set[str] = set()
        """Tensors that may differ by one unit: they are quantized from sums of floats."""
        self.refused: list[str] = []
        """Nodes that onnxruntime does not run, and why: for whoever adds operators."""
        self._number = 0

    # Choices

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def one_of(self, items: Sequence[T]) -> T:
        return items[self.integer(0, len(items) - 1)]

    def real(self, low: float, high: float) -> float:
        """A number of few digits."""
        return round(float(self.rng.uniform(low, high)), 3)

    def normal(self, shape: Sequence[int], deviation: float = 1.0) -> npt.NDArray[np.float32]:
        return (self.rng.standard_normal(tuple(shape)) * deviation).astype(np.float32)

    def pick(self, suits: Callable[[Value], bool] = lambda _: True) -> Value:
        """A float tensor that suits, rather a new one. Raises Unsuitable."""
        found = [value for value in self.values if value.is_float and suits(value)]
        if not found:
            raise Unsuitable
        return found[-1] if self.chance(0.6) else self.one_of(found)

    def require(self, condition: bool) -> None:
        """Raises Unsuitable."""
        if not condition:
            raise Unsuitable

    # Tensors

    def input(self, shape: Sequence[int]) -> Value:
        """An input of the model: multiples of 1/32 in [-2, 2]."""
        return self.given(on_grid(self.rng.uniform(-2, 2, tuple(shape)), 1 / 32), 1 / 32)

    def given(self, array: Array, step: float | None = None) -> Value:
        """An input of the model with these elements."""
        value = Value(f"x{len(self.feeds)}", array, True, step)
        self.feeds[value.name] = array
        self.values.append(value)
        return value

    def constant(self, array: Any, step: float | None = None) -> Value:
        """An initializer, or the result of a node Constant."""
        self._number += 1
        value = Value(f"c{self._number}", np.asarray(array), True, step)
        if self.chance(0.1):
            proto = numpy_helper.from_array(value.array)
            self.nodes.append(helper.make_node("Constant", [], [value.name], value=proto))
        else:
            self.constants[value.name] = value.array
        return value

    def ints(self, *items: int) -> Value:
        return self.constant(np.array(items, np.int64))

    def weight(self, shape: Sequence[int], fan_in: int) -> Value:
        """Weights that keep the size of values; sometimes multiples of 1/8."""
        array = self.normal(shape, float(fan_in) ** -0.5)
        if self.chance(0.3):
            return self.constant(on_grid(array, 1 / 8), 1 / 8)
        return self.constant(array)

    def op(
        self,
        op_type: str,
        operands: Sequence[Value | None],
        *,
        outputs: int = 1,
        exact: bool = False,
        step: float | None = None,
        **attributes: Any,
    ) -> list[Value]:
        """A node; its results are tensors of the graph. Raises Unsuitable for large ones.

        `exact` and `step` describe the results, as those of `Value` do.
        """
        self._number += 1
        names = [f"t{self._number}_{number}" for number in range(outputs)]
        given = [item.name if item is not None else "" for item in operands]
        attributes = {key: item for key, item in attributes.items() if item is not None}
        node = helper.make_node(op_type, given, names, name=f"n{self._number}", **attributes)
        arrays = self._evaluated(node, [item for item in operands if item is not None])
        for array in arrays:
            self.require(0 < array.size <= self.max_elements and array.ndim <= 6)
            self.require(array.dtype.kind != "f" or bool(np.isfinite(array).all()))
        self.nodes.append(node)
        found = [
            Value(name, array, exact or step is not None, step)
            for name, array in zip(names, arrays, strict=True)
        ]
        self.values += found
        return [self._scaled(value) for value in found]

    def _evaluated(self, node: onnx.NodeProto, operands: Sequence[Value]) -> list[Array]:
        """Results of a node. Raises Unsuitable where the evaluator refuses it."""
        feeds = {item.name: item.array for item in operands}
        if node.op_type in INTEGER_PRODUCTS:
            return evaluate_onnx(node, self.opset, feeds)
        results = [helper.make_empty_tensor_value_info(name) for name in node.output]
        infos = [_info(name, array) for name, array in feeds.items()]
        graph = helper.make_graph([node], "node", infos, results)
        opsets = [helper.make_opsetid("", self.opset)]
        try:
            return open_session(helper.make_model(graph, opset_imports=opsets, ir_version=8))(feeds)
        except Exception as error:  # onnxruntime raises many kinds
            self.refused.append(f"{node.op_type}: {error}")
            raise Unsuitable from error

    def one(self, op_type: str, *operands: Value | None, **attributes: Any) -> Value:
        """A node with one result."""
        return self.op(op_type, operands, **attributes)[0]

    def like(self, op_type: str, *operands: Value | None, **attributes: Any) -> list[Value]:
        """A node that moves elements of its first operand: they stay as exact as they are."""
        first = operands[0]
        assert first is not None
        return self.op(op_type, operands, exact=first.exact, step=first.step, **attributes)

    def _scaled(self, value: Value) -> Value:
        """`value`, or a tensor that is it times a power of two, near 1."""
        if (
            not self._scales
            or not value.is_float
            or 0.05 < value.largest <= 4
            or value.largest == 0
        ):
            return value
        factor = 2.0 ** -np.round(np.log2(value.largest))
        if not 2.0**-20 < factor < 2.0**20:
            return value
        step = None if value.step is None else value.step * factor
        constant = self.constant(np.float32(factor), factor)
        return self.one("Mul", value, constant, exact=value.exact, step=step)

    def sum_step(self, left: Value, right: Value, count: int) -> float | None:
        """The step of sums of `count` products where they are exact in any order."""
        if left.step is None or right.step is None:
            return None
        step = left.step * right.step
        return step if count * left.largest * right.largest < EXACT_SUM * step else None

    def added_step(self, *values: Value) -> float | None:
        """The step of a sum where it is exact."""
        steps = [value.step for value in values if value.step is not None]
        if len(steps) < len(values):
            return None
        return min(steps) if sum(v.largest for v in values) < EXACT_SUM * min(steps) else None

    def model(self, *, open_shapes: bool = False, inner: float = 0.08) -> onnx.ModelProto:
        """All that was built; tensors that nothing reads are outputs.

        Parameters
        ----------
        open_shapes : every dimension of inputs and outputs is symbolic.
        inner : the share of other tensors that are outputs, too.
        """
        read = {name for node in self.nodes for name in node.input}
        results = [value for value in self.values if value.name not in self.feeds]
        outputs = [v for v in results if v.name not in read or self.chance(inner)]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [_info(name, array, open_shapes) for name, array in self.feeds.items()],
            [_info(value.name, value.array, open_shapes) for value in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _info(name: str, array: Array, open_shape: bool = False) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    shape = [f"{name}_{axis}" for axis in range(array.ndim)] if open_shape else array.shape
    return helper.make_tensor_value_info(name, kind, shape)
