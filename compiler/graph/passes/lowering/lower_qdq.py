"""Lowers quantize/dequantize patterns to integer operators.

This is the only pass that may change results. With the same inputs, each operator differs from
onnxruntime by at most one unit in the last place of its output. Every later pass is exact.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial

import numpy as np

from daedal.common.errors import ModelError, NotQuantizedError, UnsupportedError, UserError
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes.lowering.function_rule import FunctionRule
from daedal.compiler.graph.passes.lowering.lowering_context import (
    BIAS_ERROR,
    WIDE_RESULTS,
    LoweringContext,
    Rule,
)
from daedal.compiler.graph.passes.lowering.requantization import (
    FACTOR_BITS,
    Quantization,
    QuantizedTensor,
)
from daedal.compiler.graph.passes.lowering.rules import RULES
from daedal.compiler.graph.unfit import UnfitLayers

__all__ = ["lower_qdq"]


def lower_qdq(
    graph: Graph,
    *,
    multiplier_bits: int,
    accumulator_bits: int = 32,
    on_host: Collection[str] = (),
    tables: bool = False,
    wide: bool = False,
    rows: bool = False,
    factor_bits: int = FACTOR_BITS,
    product_bits: int | None = None,
    bias_error: float = BIAS_ERROR,
    as_floats: bool = False,
    wide_results: Collection[str] | None = None,
    rules: Mapping[str, Rule] = RULES,
) -> Graph:
    """Replace float operators between `dequantize` and `quantize` by integer operators.

    Each keeps the name of the quantized tensor it computes. Activations become int8; for uint8
    ones, 128 is subtracted from values and zero point. int16 ones without zero point stay if the
    variant has wide results. Zero points are folded into biases and pad
    values, ReLU and Clip into bounds. A quantize of a dequantize with the same scale and zero point
    is removed. Float operators without a rule stay, with the dequantize and quantize nodes they
    need.

    Parameters
    ----------
    graph : a graph from the frontend.
    multiplier_bits : bits of the unsigned multipliers of REQUANTIZE in the variant.
    accumulator_bits : bits of its accumulators.
    on_host : quantized tensors that are still computed by float operators and a quantize.
    tables : whether the variant has tables; then they compute functions of one quantized tensor.
    wide : whether the variant has results of 16 bits, and operands; without them, the host computes
        such tensors and what reads them.
    rows : whether the variant computes softmax and norms.
    factor_bits : magnitude bits of the factors of a sum.
    product_bits : which a sum times its multiplier may have; None: any.
    bias_error : units of an 8-bit result by which rounding a bias may move it; layers with others
        stay floats.
    as_floats : whether 8-bit integers that only change their scale must be rounded as float32 are;
        those with scales that round a tie otherwise stay floats.
    wide_results : float operators whose results may have 16 bits; None: all that can with `wide`,
        and none without.
    rules : of the float operators that become integer ones.

    Before::

        x = dequantize(x_q, sx, zx) axis=1
        w = dequantize(w_q, sw, zw) axis=0
        t = conv2d(x, w, b) ...
        r = relu(t)
        y_q = quantize(r, sy, zy) axis=1

    After::

        const y_q.params: int64[16,3]
        y_q = q_conv2d(x_q, w_q, y_q.params) low=zy pad_value=zx zero_point=zy ...

    Raises
    ------
    NotQuantizedError
        For a model without quantization.
    UnfitLayers
        For all layers whose weights, bias or scales the machine cannot hold.
    """
    if not any(node.op in ("quantize", "dequantize") for node in graph.nodes):
        raise NotQuantizedError(
            f"models must be quantized to int8 (QDQ), and {graph.name!r} has no QuantizeLinear "
            "node; quantize it with `daedal quantize`, or compile it for processors with "
            "--target cpu"
        )
    try:
        context = partial(
            LoweringContext,
            graph,
            multiplier_bits=multiplier_bits,
            accumulator_bits=accumulator_bits,
            rules=rules,
            factor_bits=factor_bits,
            product_bits=product_bits,
            bias_error=bias_error,
            as_floats=as_floats,
            wide_results=(WIDE_RESULTS if wide else ()) if wide_results is None else wide_results,
            function_rule=FunctionRule(graph).lower if tables else None,
            rows=rows,
        )
        return _Lowering(graph, on_host, wide, context).run()
    except RecursionError as error:
        # The rules follow chains of reshapes and pools recursively; real chains are short.
        raise ModelError(
            "chains of reshapes and pools between quantized layers must be short "
            f"({graph.name!r}); merge them in the model"
        ) from error


class _Lowering:
    """One run: walks the quantize nodes in order and adds float nodes only when they are read."""

    def __init__(
        self,
        graph: Graph,
        on_host: Collection[str],
        wide: bool,
        context: Callable[..., LoweringContext],
    ) -> None:
        self._graph = graph
        self._wide = wide
        self._on_host = on_host
        self._integers = ("int8", "uint8", "int16") if wide else ("int8", "uint8")
        self._builder = GraphBuilder(graph.name, graph)
        self._integer_names: dict[str, str] = {}
        self._unfit: dict[str, UserError] = {}
        self._context = context(builder=self._builder, view=self._view)

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            if node.op == "quantize" and node.output not in self._integer_names:
                self._lower_quantize(node)
        if self._unfit:
            raise UnfitLayers(self._graph, self._unfit)
        for name in self._graph.outputs:
            self._emit(name)
        return self._builder.finish(self._graph.outputs)

    def _lower_quantize(self, node: Node) -> None:
        """Compute the quantized tensor by an integer operator, or by the host's quantize."""
        name = self._name_for(node.output)
        quantization = self._quantization(node)
        lowered = None
        if quantization is not None and node.output not in self._on_host:
            try:
                lowered = self._context.lower(node.inputs[0], quantization, name)
            except UnsupportedError as error:
                self._unfit[node.output] = error
        self._integer_names[node.output] = (
            self._quantize(node, name) if lowered is None else lowered
        )

    def _quantize(self, node: Node, name: str) -> str:
        """The host's quantize, and the name of its int8 form, `name` if that is computed itself."""
        self._emit(node.inputs[0])
        if name != node.output:
            self._builder.copy_node(node)
            return self._signed(node.output)
        operands = [*node.inputs[:2], self._signed_zero_point(node)]
        return self._builder.add("quantize", operands, node.attrs, output=name, name=node.name)

    def _name_for(self, tensor: str) -> str:
        """Name of the int8 form of a quantized tensor: its own, unless something needs it as uint8:
        it is a graph output, or an ONNX node that the host runs as it is reads it."""
        if not self._is_unsigned(tensor):
            return tensor
        leaves = tensor in self._graph.outputs
        if leaves or any(self._is_foreign(user.output) for user in self._graph.users[tensor]):
            return self._builder.fresh_name(f"{tensor}.int8")
        return tensor

    def _quantization(self, node: Node) -> Quantization | None:
        """Scale and zero point of a quantize or dequantize node. None if it cannot be lowered: it
        has parameters per channel, or integers of other types than those of `lower_qdq`."""
        scale, zero_point = (self._graph.constants.get(name) for name in node.inputs[1:])
        assert scale is not None and zero_point is not None
        kind = zero_point.dtype.name
        if scale.size != 1:
            return None
        takes_wide = self._wide or (node.op == "quantize" and bool(self._context.wide_results))
        if takes_wide and kind == "int16" and not zero_point.any():
            return Quantization(float(scale.reshape(())), 0, wide=True).unbounded
        if kind not in ("int8", "uint8"):
            return None
        offset = 128 if zero_point.dtype.name == "uint8" else 0
        return Quantization(float(scale.reshape(())), int(zero_point.reshape(())) - offset)

    def _signed_zero_point(self, node: Node) -> str:
        """The zero point operand, converted to int8 if it was uint8."""
        return self._signed_constant(node.inputs[2])

    def _signed_constant(self, name: str) -> str:
        """A constant, converted to int8 if it was uint8."""
        value = self._graph.constant(name)
        if value.dtype.name != "uint8":
            return name
        signed = (value.astype(np.int16) - 128).astype(np.int8)
        return self._builder.constant(self._builder.fresh_name(f"{name}.int8"), signed)

    def _view(self, tensor: str) -> QuantizedTensor | None:
        """The integer tensor that a float tensor is directly dequantized from, else None."""
        node = self._graph.producers.get(tensor)
        if node is None or node.op != "dequantize" or self._graph.is_constant(node.inputs[0]):
            return None
        quantization = self._quantization(node)
        if quantization is None:
            return None
        name = self._integer(node.inputs[0])
        return QuantizedTensor(name, quantization.scale, quantization.zero_point, quantization.wide)

    def _integer(self, tensor: str) -> str:
        """The int8 form of an integer tensor of the old graph."""
        if tensor not in self._integer_names:
            if tensor in self._graph.inputs:
                self._integer_names[tensor] = self._signed(tensor)
            elif self._graph.is_constant(tensor):
                self._integer_names[tensor] = self._signed_constant(tensor)
            elif self._is_foreign(tensor):
                self._emit(tensor)
                self._integer_names[tensor] = self._signed(tensor)
            else:
                self._integer_names[tensor] = self._moved(self._graph.producers[tensor])
        return self._integer_names[tensor]

    def _moved(self, node: Node) -> str:
        """The same reordering of elements, applied to the int8 forms of its operands."""
        operands = [self._integer(name) for name in node.inputs]
        if node.op == "pad" and len(operands) == 1 and self._is_unsigned(node.output):
            zero = self._builder.fresh_name(f"{node.output}.value")
            operands.append(self._builder.constant(zero, np.array(-128, dtype=np.int8)))
        name = self._name_for(node.output)
        return self._builder.add(node.op, operands, node.attrs, output=name, name=node.name)

    def _is_unsigned(self, tensor: str) -> bool:
        return self._graph.types[tensor].dtype == "uint8"

    def _is_foreign(self, tensor: str) -> bool:
        """Whether an ONNX node that the host runs as it is computes a tensor."""
        node = self._graph.producers.get(tensor)
        return node is not None and node.op == "onnx"

    def _signed(self, tensor: str) -> str:
        """The int8 form of a tensor that the new graph has in its own type."""
        if not self._is_unsigned(tensor):
            return tensor
        output = self._builder.fresh_name(f"{tensor}.int8")
        return self._builder.add("flip_sign", [tensor], output=output)

    def _emit(self, tensor: str) -> None:
        """Add `tensor` of the old graph to the new one, with everything it depends on."""
        stack = [tensor]
        while stack:
            name = stack[-1]
            if self._builder.is_defined(name) or self._graph.is_constant(name):
                stack.pop()
                continue
            integer = self._graph.types[name].dtype in self._integers
            if integer and not self._is_foreign(name):
                self._emit_integer(name)
                stack.pop()
                continue
            node = self._graph.producers[name]
            missing = [item for item in self._float_operands(node) if not self._is_ready(item)]
            if missing:
                stack.extend(missing)
                continue
            self._emit_float(node)
            stack.pop()

    def _is_ready(self, name: str) -> bool:
        return self._builder.is_defined(name) or self._graph.is_constant(name)

    def _float_operands(self, node: Node) -> tuple[str, ...]:
        return () if node.op == "dequantize" else node.inputs

    def _emit_float(self, node: Node) -> None:
        if node.op != "dequantize" or self._graph.is_constant(node.inputs[0]):
            self._builder.copy_node(node)
            return
        operands = [self._integer(node.inputs[0]), node.inputs[1], self._signed_zero_point(node)]
        self._builder.copy_node(node, operands)

    def _emit_integer(self, name: str) -> None:
        """Define an integer tensor that is needed under its own name and type."""
        integer = self._integer(name)
        if self._builder.is_defined(name):
            return
        if self._is_unsigned(name):
            self._builder.add("flip_sign", [integer], output=name)
        else:
            shape = self._graph.types[name].shape
            self._builder.add("reshape", [integer], {"shape": shape}, output=name)
