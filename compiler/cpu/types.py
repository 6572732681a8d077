"""`Types`: the static types of a model's tensors, found node by node.

ONNX's shape inference over a whole model stops where a shape is computed. Here each node is
inferred when the values that it reads are known, so constants that were folded give shapes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from daedal.compiler.frontend.inference_bounds import is_safe_step
from daedal.compiler.frontend.inferred_forms import FORM_OPSET, inferred_form
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.compiler.ops.onnx.operation import ResultType

__all__ = ["Types"]

MAX_SHAPE_ELEMENTS = 1 << 12
"""Larger constants are no shapes."""


class Types:
    """Types by name; `static` is None for what is not a tensor of known shape."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._opsets = list(model.opset_import)
        self._versions = {item.domain: item.version for item in self._opsets}
        self._protos: dict[str, onnx.TypeProto] = {
            name: value.type for name, value in tensor_types(model).items()
        }
        self._static: dict[str, ResultType | None] = {}
        graph = model.graph
        if all(_static(item.type) is not None for item in graph.input):
            # Where all inputs are static, so is what the model says of other tensors.
            for item in (*graph.value_info, *graph.output):
                if self.static(item.name) is None and _static(item.type) is not None:
                    self._protos[item.name] = item.type
                    self._static.pop(item.name)

    def static(self, name: str) -> ResultType | None:
        """Shape and dtype of a tensor, if both are known."""
        if name not in self._static:
            self._static[name] = _static(self._protos.get(name))
        return self._static[name]

    def proto(self, name: str) -> onnx.TypeProto | None:
        """The type as ONNX writes it."""
        return self._protos.get(name)

    def set(self, name: str, kind: ResultType) -> None:
        """Record the type of a tensor."""
        number = helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype))
        self._protos[name] = helper.make_tensor_type_proto(number, kind.shape)
        self._static[name] = kind

    def set_constant(self, name: str, value: npt.NDArray[Any]) -> None:
        """Record the type of a tensor whose value is known."""
        self.set(name, ResultType(value.shape, value.dtype.name))

    def infer(self, node: onnx.NodeProto, constants: Mapping[str, npt.NDArray[Any]]) -> None:
        """Infer the results of a node from what is known of its operands."""
        if all(self.static(name) is not None for name in node.output if name):
            return
        read = [name for name in node.input if name]
        if not all(name in self._protos for name in read):
            return
        if node.op_type == "Slice" and not _has_safe_steps(node, constants):
            return
        data = {
            name: numpy_helper.from_array(constants[name], name)
            for name in read
            if name in constants and np.size(constants[name]) <= MAX_SHAPE_ELEMENTS
        }
        known = {name: self._protos[name] for name in read}
        form = inferred_form(node, self._shape)
        version = FORM_OPSET if form else self._versions.get(node.domain, 1)
        found: dict[str, onnx.TypeProto] = {}
        try:
            for step in form or [node]:
                schema = onnx.defs.get_schema(step.op_type, version, step.domain)
                found = onnx.shape_inference.infer_node_outputs(
                    schema, step, known, data, opset_imports=self._opsets
                )
                known.update(found)
        except Exception:  # inference raises many kinds; the type stays unknown
            return
        for name, kind in found.items():
            if self.static(name) is None:
                self._protos[name] = kind
                self._static.pop(name, None)

    def _shape(self, name: str) -> tuple[int, ...] | None:
        found = self.static(name)
        return None if found is None else found.shape


def _has_safe_steps(node: onnx.NodeProto, constants: Mapping[str, npt.NDArray[Any]]) -> bool:
    """Whether ONNX's inference may see a Slice: it fails at large steps."""
    steps = constants.get(node.input[4]) if len(node.input) > 4 else None
    return steps is None or is_safe_step(steps)


def _static(found: onnx.TypeProto | None) -> ResultType | None:
    if found is None or not found.HasField("tensor_type"):
        return None
    tensor = found.tensor_type
    if not tensor.HasField("shape") or not tensor.elem_type:
        return None
    dims = tensor.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        return None
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except KeyError:
        return None
    return ResultType(tuple(int(dim.dim_value) for dim in dims), str(dtype))
