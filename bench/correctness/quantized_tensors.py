"""`compare_quantized`: the quantized tensors of a model on compiled code beside onnxruntime's.

onnxruntime computes every tensor from *our* quantized tensors before it, so a difference in one
does not reach the next. Between two quantized tensors both compute in float, and add in another
order: where a sum lies at a tie of QuantizeLinear, each may round to the other neighbour. So
quantized tensors differ by at most one unit in the last place; other outputs by their last bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

import daedal
from daedal.artifact.artifact import HostPart
from daedal.checking.onnxruntime_session import open_session
from daedal.runtime.host_code import HostProgram

__all__ = ["QuantizedDifference", "compare_quantized"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class QuantizedDifference:
    """Of all quantized tensors: how many of their elements differ, and by how many units at most.

    `outputs` is the largest difference of the float outputs, relative to the largest element (at
    least 1) of each; `worst` the quantized tensor that differs by `largest`.
    """

    num_elements: int
    num_different: int
    largest: int
    worst: str
    outputs: float

    @property
    def allowed(self) -> bool:
        """Whether it is rounding to a neighbour, and nothing else."""
        return self.largest <= 1 and self.outputs <= 1e-4


def compare_quantized(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> QuantizedDifference:
    """Run `model` on compiled code, and each step between its quantized tensors in onnxruntime.

    Raises ModelError for a model that cannot be compiled.
    """
    shown = _showing(model)
    quantized = _quantized(shown)
    ours = _run(shown, feeds)
    for name, array in _run(model, feeds).items():
        np.testing.assert_array_equal(array, ours[name], f"{name}: shown tensors change it")
    given = _reading(shown, quantized)
    read = {_given(name): ours[name] for name in quantized}
    needed = {item.name for item in given.graph.input}
    found = open_session(given)({k: v for k, v in {**feeds, **read}.items() if k in needed})
    elements, different, outputs, largest, worst = 0, 0, 0.0, 0, ""
    for item, theirs in zip(given.graph.output, found, strict=True):
        if item.name not in quantized:
            scale = max(1.0, float(np.abs(theirs).max(initial=0)))
            gap = np.abs(ours[item.name].astype(np.float64) - theirs.astype(np.float64))
            outputs = max(outputs, float(gap.max(initial=0)) / scale)
            continue
        units = np.abs(ours[item.name].astype(np.int64) - theirs.astype(np.int64))
        elements, different = elements + units.size, different + int(np.count_nonzero(units))
        if units.max(initial=0) > largest:
            largest, worst = int(units.max()), item.name
    return QuantizedDifference(elements, different, largest, worst, outputs)


def _run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    (part,) = daedal.compile(model.SerializeToString(), target="cpu").parts
    assert isinstance(part, HostPart)
    (code,) = part.codes
    return HostProgram(code).run(feeds)


def _quantized(model: onnx.ModelProto) -> dict[str, int]:
    """Results of QuantizeLinear, with their element types."""
    types = {item.name: item.type.tensor_type.elem_type for item in model.graph.output}
    nodes = (node for node in model.graph.node if node.op_type == "QuantizeLinear")
    return {node.output[0]: types[node.output[0]] for node in nodes}


def _showing(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its quantized tensors as outputs, too."""
    model = onnx.shape_inference.infer_shapes(model)
    types = {item.name: item for item in model.graph.value_info}
    known = {item.name for item in model.graph.output}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] not in known:
            model.graph.output.append(types[node.output[0]])
    return model


def _reading(model: onnx.ModelProto, quantized: Mapping[str, int]) -> onnx.ModelProto:
    """The model with inputs that are read instead of its quantized tensors; these are outputs."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    read = set()
    for node in changed.graph.node:
        for place, name in enumerate(node.input):
            if name in quantized:
                node.input[place] = _given(name)
                read.add(name)
    changed.graph.input.extend(
        helper.make_tensor_value_info(_given(name), quantized[name], None) for name in sorted(read)
    )
    return changed


def _given(name: str) -> str:
    return f"{name}/given"
