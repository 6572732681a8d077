"""Nodes without an importer: evaluated now if all operands are constant, else run on the host.

Input: ONNX nodes. Output: constants, and `onnx` nodes of the graph, one for each output. Tensors
without a static shape, or of a type that the graph does not support, stay outside the graph. So do
all nodes that read them; the host runs these after everything else.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from daedal.common.errors import ModelError
from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import Array, OnnxNode, element_type_name
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.compiler.graph.graph import Node, Outside
from daedal.compiler.graph.ops.foreign import evaluate_onnx, is_random, names_read
from daedal.compiler.graph.types import TensorType

__all__ = ["NO_SUCH_OPERATOR", "ForeignNodes"]

NO_SUCH_OPERATOR = "the accelerator has no such operator"
"""Why the host runs a node that no variant has an operator for."""

MAX_FOLDED_ELEMENTS = 1 << 24
"""Bound on a constant that is computed here: an untrusted model may ask for any."""

_STANDARD = ("", "ai.onnx")

_KEPT = ("DequantizeLinear", "QuantizeLinear")
"""Not evaluated where they read types that the graph lacks: the host computes what is around."""


class ForeignNodes:
    """The nodes of one model that no importer supports.

    Parameters
    ----------
    context : context of the import.
    model : the whole model; ONNX's shape inference runs when its types are first needed.
    """

    def __init__(self, context: ImportContext, model: onnx.ModelProto) -> None:
        self._context = context
        self._model = model
        self._types: dict[str, onnx.ValueInfoProto] | None = None
        self._outside: dict[str, str] = {}
        self._nodes: list[Node] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._read: dict[str, onnx.TensorProto] = {}
        self._frontier: dict[str, None] = {}

    @property
    def frontier(self) -> list[str]:
        """Computed tensors of the graph that are read outside it."""
        inputs = {item.name for item in self._model.graph.input}
        builder = self._context.builder
        return [name for name in self._frontier if builder.is_computed(name) and name not in inputs]

    @property
    def outside(self) -> Outside:
        """What is not in the graph."""
        constants = {**self._constants, **self._read}
        opsets = {item.domain: item.version for item in self._model.opset_import}
        return Outside(self._outside, tuple(self._nodes), constants, opsets)

    def is_outside(self, name: str) -> bool:
        """Whether a tensor is not in the graph."""
        return name in self._outside

    def leave_outside(self, tensor: onnx.TensorProto) -> None:
        """Keep a constant outside the graph, which does not have its type."""
        if 0 in tensor.dims and self._add_empty(tensor.name, tensor.data_type, tensor.dims):
            return
        self._outside[tensor.name] = _no_such_type(tensor.data_type, tensor.name)
        self._constants[tensor.name] = tensor

    def fold_outside(self, node: onnx.NodeProto) -> bool:
        """Evaluate a node that reads constants outside the graph, as a Cast of float64 does, if the
        graph has the types of its results; returns whether it did."""
        if not any(name in self._constants for name in node.input) or node.op_type in _KEPT:
            return False
        if any(self._type(name) is None for name in node.output if name):
            return False
        return self.fold(node)

    def reads_outside(self, node: onnx.NodeProto) -> bool:
        """Whether a node reads a tensor outside the graph; then its results are outside, too."""
        names = names_read(node)
        reason = next((self._outside[name] for name in names if name in self._outside), None)
        if reason is None:
            return False
        self._leave(node, dict.fromkeys(filter(None, node.output), reason))
        return True

    def keep_constant(self, name: str) -> bool:
        """Keep a tensor for what is outside the graph; returns whether it is a constant."""
        value = self._context.constant_value(name)
        if value is not None and name not in self._read:
            self._read[name] = onnx.numpy_helper.from_array(value, name)
        return value is not None

    def _leave(self, node: onnx.NodeProto, reasons: Mapping[str, str]) -> None:
        """Leave the node that computes the tensors of `reasons` outside the graph."""
        node = self._with_narrow(node)
        operands = []
        for name in names_read(node):
            operand = name if self.keep_constant(name) else self._context.resolve(name)
            if self._context.builder.is_defined(operand):
                self._frontier[operand] = None
            operands.append(operand)
        attrs = {"proto": node.SerializeToString(deterministic=True)}
        self._nodes.append(Node("onnx", tuple(operands), tuple(reasons), attrs, node.name))
        self._outside.update(reasons)

    def fold(self, node: onnx.NodeProto) -> bool:
        """Evaluate a node that reads only constants; returns whether that was possible."""
        if node.domain not in _STANDARD or is_random(node.op_type):
            return False
        if node.op_type in ("Shape", "Size") and self._fold_shape(node):
            return True
        names = names_read(node)
        values = [self._value(name) for name in names]
        feeds = {
            name: value for name, value in zip(names, values, strict=True) if value is not None
        }
        if len(feeds) < len(names) or not all(self._is_small(name) for name in node.output if name):
            return False
        try:
            results = evaluate_onnx(node, self._context.opset, feeds)
        except Exception:  # the evaluator raises many kinds; whoever imports the node tells why
            return False
        for name, value in zip(filter(None, node.output), results, strict=True):
            self._context.define_constant(name, value)
        return True

    def add_empty(self, name: str) -> bool:
        """Make a constant of a tensor without elements; returns whether it is one."""
        tensor = self._inferred(name)
        if tensor is None or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            return False
        return self._add_empty(name, tensor.elem_type, [dim.dim_value for dim in tensor.shape.dim])

    def _add_empty(self, name: str, kind: int, shape: Sequence[int]) -> bool:
        if 0 not in shape or min(shape) < 0:
            return False
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
        except KeyError:
            return False
        self._context.define_constant(name, np.zeros(shape, dtype))
        return True

    def _with_narrow(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The node, reading constants of 4 bits under names of their own: those of the graph have
        the same values in 8 bits."""
        made = onnx.NodeProto()
        made.CopyFrom(node)
        for number, name in enumerate(node.input):
            if name in self._context.narrow:
                made.input[number] = self._context.builder.fresh_name(f"{name}.narrow")
                tensor = onnx.TensorProto()
                tensor.CopyFrom(self._context.narrow[name])
                tensor.name = made.input[number]
                self._read[tensor.name] = tensor
        return made

    def _value(self, name: str) -> Array | None:
        """The value of a constant inside or outside the graph."""
        if name not in self._constants:
            return self._context.constant_value(name)
        try:
            return np.asarray(onnx.numpy_helper.to_array(self._constants[name]))
        except (ValueError, TypeError):  # damaged
            return None

    def add(self, node: onnx.NodeProto, reason: str) -> None:
        """Add a node that runs on the host.

        Raises
        ------
        ModelError
            For a node that the host cannot run either, or that reads what no node computes.
        """
        if node.domain not in _STANDARD:
            raise ModelError(
                f"operators must be ONNX's own, not {node.domain}.{node.op_type} (node "
                f"{node.name!r}): neither accelerator nor host can run it; replace it in the model"
            )
        builder = self._context.builder
        wrapped = OnnxNode(node, self._context.opset)
        results = [name for name in node.output if name]
        computed = {name for name in results if not self.add_empty(name)}
        if not computed:
            return
        read = names_read(node)
        nothing = next((name for name in read if self._context.is_empty(name)), None)
        operands = [
            self._context.defined(name, wrapped)
            for name in read
            if not self._context.is_empty(name)
        ]
        reasons = dict[str, str]()
        for number, name in enumerate(results):
            if name not in computed:
                continue
            kind = None if nothing else self._type(name)
            if kind is None:
                reasons[name] = (
                    f"it reads {nothing!r}, which has no elements"
                    if nothing
                    else self._why_outside(name)
                )
                continue
            attrs = {
                "dtype": kind.dtype,
                "op_type": node.op_type,
                "opset": self._context.opset,
                "output": number,
                "proto": node.SerializeToString(deterministic=True),
                "shape": kind.shape,
            }
            builder.add("onnx", operands, attrs, output=name, name=node.name, note=reason)
        if reasons:
            self._leave(node, reasons)

    def _fold_shape(self, node: onnx.NodeProto) -> bool:
        kind = self._type(node.input[0])
        bounds = {item.name: int(item.i) for item in node.attribute}
        if kind is None:
            return False
        if node.op_type == "Size":
            size = np.array(kind.num_elements, dtype=np.int64)
            self._context.define_constant(node.output[0], size)
            return True
        shape = np.array(kind.shape, dtype=np.int64)
        self._context.define_constant(
            node.output[0], shape[bounds.get("start", 0) : bounds.get("end", len(shape))]
        )
        return True

    def _is_small(self, name: str) -> bool:
        """Whether a tensor is known not to be huge."""
        tensor = self._inferred(name)
        if tensor is None or not tensor.HasField("shape"):
            return False
        dims = tensor.shape.dim
        if not all(dim.HasField("dim_value") for dim in dims):
            return False
        return math.prod(int(dim.dim_value) for dim in dims) <= MAX_FOLDED_ELEMENTS

    def _type(self, name: str) -> TensorType | None:
        """Graph type of a tensor, or None if the graph has no such type."""
        resolved = self._context.resolve(name)
        if self._context.builder.is_defined(resolved):
            return self._context.builder.types[resolved]
        tensor = self._inferred(name)
        if tensor is None or not tensor.HasField("shape"):
            return None
        if not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            return None
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
            return TensorType(tuple(int(dim.dim_value) for dim in tensor.shape.dim), dtype)
        except (KeyError, ModelError):
            return None

    def _why_outside(self, name: str) -> str:
        """Why the graph cannot have a tensor that a node computes."""
        tensor = self._inferred(name)
        kind = 0 if tensor is None else tensor.elem_type
        try:
            TensorType((), onnx.helper.tensor_dtype_to_np_dtype(kind).name)
        except ModelError:
            return _no_such_type(kind, name)
        except KeyError:
            pass
        return f"the shape or type of {name!r} is known only when the model runs"

    def _inferred(self, name: str) -> onnx.TypeProto.Tensor | None:
        if self._types is None:
            self._types = tensor_types(self._model)
        found = self._types.get(name)
        return None if found is None else found.type.tensor_type


def _no_such_type(kind: int, name: str) -> str:
    return f"the accelerator does not compute with {element_type_name(kind)}, the type of {name!r}"
