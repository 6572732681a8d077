"""Why a node of the model runs on the host: one sentence for each."""

from collections.abc import Collection, Mapping

import onnx

from daedal.compiler.artifact.missing_parts import (
    ROWS,
    TABLES,
    WIDE,
    Needs,
    has_parts,
    names_lacking,
)
from daedal.compiler.frontend.cut import ModelCutter
from daedal.compiler.frontend.foreign import NO_SUCH_OPERATOR
from daedal.compiler.frontend.operators.table import OPERATORS
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.foreign import FOREIGN, names_read
from daedal.compiler.graph.passes.lowering.function_rule import function_nodes
from daedal.compiler.ops.onnx.table import ELEMENTWISE
from daedal.isa.variant import Variant

__all__ = ["HostReasons"]

_QUANTIZATION = ("DequantizeLinear", "QuantizeLinear")
_QUANTIZED = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
_INT16 = onnx.TensorProto.INT16
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)

_BORDER = "host and accelerator meet here"
_INNER = "the host computes what is around it"
_UNQUANTIZED = "it does not stand between DequantizeLinear and QuantizeLinear"
_SEVERAL = "tables compute functions of one tensor of 8 bits, and it is part of none"
_WIDE_OPERAND = (
    "it reads 16 bits, and only sums, changes of scale, softmax and norms do on the accelerator"
)
_WIDE_RESULT = "its result has 16 bits, and a softmax gives 8 on the accelerator"
_BY_ROWS = ("layer_norm", "rms_norm", "softmax")
_SHAPES = "both operands must be quantized, and one must have the shape of the result"
_MOVES = "only channels, rows and columns move, of tensors of up to four dimensions"
_BY_OPERATOR = {
    "add": _SHAPES,
    "concat": _MOVES,
    "mul": _SHAPES,
    "pad": _MOVES,
    "reshape": "it only tells in which order the host reads the elements",
    "resize": _MOVES,
    "slice": _MOVES,
    "sub": _SHAPES,
    "transpose": "LOAD and STORE move whole rows and cannot transpose",
}
"""Why an operator of the graph cannot run on the accelerator although its tensors are quantized."""

_ORDER = ("reshape", "transpose")
"""These need no quantization behind them: a change of order is the same for integers."""

_MOVING = frozenset(
    {"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
"""ONNX's operators that only change an order."""

_PASSING = frozenset(
    {
        "Clip",
        "Concat",
        "Dropout",
        "Flatten",
        "GlobalMaxPool",
        "Identity",
        "Max",
        "MaxPool",
        "Min",
        "Pad",
        "ReduceMax",
        "Relu",
        "Reshape",
        "Resize",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators that need no quantization of their own between others: they choose among values."""


class HostReasons:
    """The report's reasons for the nodes of one model.

    Parameters
    ----------
    cutter : cutter of the model.
    imported, graph : before and after all passes; `onnx` nodes say why they are foreign.
    exchanged : names of the tensors that host and accelerator exchange.
    reasons : by quantized tensor, why its computation was moved to the host.
    variant : for which the model is compiled.
    """

    def __init__(
        self,
        cutter: ModelCutter,
        imported: Graph,
        graph: Graph,
        exchanged: Collection[str],
        reasons: Mapping[str, str],
        variant: Variant,
    ) -> None:
        self._cutter = cutter
        self._imported, self._graph = imported, graph
        self._exchanged = frozenset(exchanged)
        self._users: dict[str, list[onnx.NodeProto]] = {}
        for node in cutter.nodes:
            for name in names_read(node):
                self._users.setdefault(name, []).append(node)
        integers = {
            node.output: _BY_OPERATOR[node.op]
            for node in graph.nodes
            if node.op in _BY_OPERATOR
            and node.output in cutter.producers
            and graph.types[node.output].dtype == "int8"
        }
        self._variant = variant
        self._tables, self._wide, self._rows = (
            has_parts(variant, needs) for needs in (TABLES, WIDE, ROWS)
        )
        self._by_tensor = self._before({**integers, **reasons})
        self._functions = frozenset[str]() if self._tables else function_nodes(imported)

    def of(self, node: onnx.NodeProto) -> str:
        """Why the host runs `node`."""
        output = next((name for name in node.output if name), "")
        if node.op_type in _QUANTIZATION:
            tensor = output if node.op_type == "QuantizeLinear" else node.input[0]
            return _BORDER if tensor in self._exchanged else _INNER
        if output in self._by_tensor:
            return self._by_tensor[output]
        if output in self._functions:
            return self._lacks(TABLES)
        made = self._graph.producers.get(output, self._imported.producers.get(output))
        of_rows = made is not None and made.op in _BY_ROWS
        if self._has_16_bits(node, output) and not (of_rows and self._wide):
            return _WIDE_OPERAND if self._wide else self._lacks_wide()
        if output in self._imported.outside.reasons:
            return self._imported.outside.reasons[output]
        if made is not None and made.note:
            return made.note
        if made is not None and made.op == FOREIGN.name and node.op_type in ELEMENTWISE:
            return self._of_function(node, output)
        return self._of_known(node, output, made)

    def _of_function(self, node: onnx.NodeProto, output: str) -> str:
        """Why the host runs an elementwise operator that only tables compute."""
        operands = [name for name in names_read(node) if name not in self._cutter.constants]
        if len(operands) > 1:
            return _SEVERAL
        if not self._tables:
            return self._lacks(TABLES)
        quantized = self._is_quantized(output, backwards=False) and all(
            self._is_quantized(name, backwards=True) for name in operands
        )
        return _SEVERAL if quantized else _UNQUANTIZED

    def _of_known(self, node: onnx.NodeProto, output: str, made: Node | None) -> str:
        """Why the host runs a node that was imported successfully."""
        entry = OPERATORS.get(node.op_type)
        if entry is None:
            return NO_SUCH_OPERATOR
        if entry.where == "host":
            by_rows = made is not None and made.op in _BY_ROWS
            return self._of_rows(node, output) if by_rows else NO_SUCH_OPERATOR
        operands = all(self._is_quantized(name, backwards=True) for name in names_read(node))
        if operands and made is not None and made.op in _ORDER and node.op_type in _MOVING:
            return _BY_OPERATOR[made.op]
        if not operands or not self._is_quantized(output, backwards=False):
            return _UNQUANTIZED
        if made is not None and made.op in _BY_OPERATOR:
            return _BY_OPERATOR[made.op]
        return f"the accelerator runs it only {entry.limits}" if entry.limits else _UNQUANTIZED

    def _lacks(self, needs: Needs) -> str:
        lacking, others = names_lacking(self._variant, needs)
        return f"the variant has no {lacking}, which would compute it{others}"

    def _lacks_wide(self) -> str:
        lacking, others = names_lacking(self._variant, WIDE)
        return f"it has 16 bits, and the variant has no {lacking}{others}"

    def _has_16_bits(self, node: onnx.NodeProto, output: str) -> bool:
        """Whether an operand of `node` has 16 bits or, if that is not possible, its result."""
        operands = {
            before.input[0]
            for name in names_read(node)
            if (number := self._cutter.producers.get(name)) is not None
            and (before := self._cutter.nodes[number]).op_type == "DequantizeLinear"
        }
        results = set() if self._wide else self._quantized(output)
        return any(self._element_type(name) == _INT16 for name in operands | results)

    def _quantized(self, tensor: str) -> set[str]:
        """The quantized tensors made of the float `tensor`."""
        users = self._users.get(tensor, ())
        return {user.output[0] for user in users if user.op_type == "QuantizeLinear"}

    def _of_rows(self, node: onnx.NodeProto, output: str) -> str:
        """Why the host runs a softmax or a norm."""
        if not self._rows:
            return self._lacks(ROWS)
        before = self._is_quantized(node.input[0], backwards=True)
        if not before or not self._is_quantized(output, backwards=False):
            return _UNQUANTIZED
        if any(self._element_type(name) == _INT16 for name in self._quantized(output)):
            return _WIDE_RESULT
        return "the accelerator runs it only over the last axis"

    def _is_quantized(self, tensor: str, *, backwards: bool) -> bool:
        """Backwards: whether every path to `tensor` begins at quantized tensors or constants.
        Forwards: whether some path from it ends at a quantized tensor. Paths pass only through
        `_PASSING`."""
        stack, seen = [tensor], {tensor}
        while stack:
            name = stack.pop()
            number = self._cutter.producers.get(name)
            kind = self._element_type(name)
            if kind in _QUANTIZED:
                if not backwards:
                    return True
                continue
            if backwards:
                if name in self._cutter.constants or (kind and kind not in _FLOATS):
                    continue
                before = None if number is None else self._cutter.nodes[number]
                if before is not None and before.op_type == "DequantizeLinear":
                    continue
                if before is None or not self._passes(before):
                    return False
                fresh = names_read(before)
            else:
                users = self._users.get(name, ())
                if any(user.op_type == "QuantizeLinear" for user in users):
                    return True
                fresh = [x for user in users if self._passes(user) for x in user.output]
            stack.extend(x for x in fresh if x and x not in seen)
            seen.update(fresh)
        return backwards

    def _passes(self, node: onnx.NodeProto) -> bool:
        """Whether integers may pass: a node that the host runs because of itself stops them."""
        made = self._imported.producers.get(node.output[0])
        return node.op_type in _PASSING and (made is None or made.op != "onnx")

    def _element_type(self, name: str) -> int:
        value = self._cutter.types.get(name)
        return 0 if value is None else int(value.type.tensor_type.elem_type)

    def _before(self, reasons: Mapping[str, str]) -> dict[str, str]:
        """Reasons of quantized tensors, for every float tensor between them and earlier ones."""
        found: dict[str, str] = {}
        for quantized, reason in reasons.items():
            stack = [quantized]
            while stack:
                number = self._cutter.producers.get(stack.pop())
                if number is None:
                    continue
                node = self._cutter.nodes[number]
                fresh = [name for name in names_read(node) if name not in found]
                if node.op_type != "DequantizeLinear":
                    found.update(dict.fromkeys(fresh, reason))
                    stack.extend(fresh)
        return found
