"""The host's part of a model: small ONNX models run by ONNX's own reference evaluator."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference import ReferenceEvaluator

from daedal.common.errors import ArtifactError, ModelError, first_line
from daedal.common.onnx_evaluator import evaluator_of
from daedal.runtime.bounded_loop import Loop, bounded_run
from daedal.runtime.quantized_inputs import QuantizedInputs

__all__ = ["Arrays", "HostModel", "check_bounds", "converted"]

Arrays = dict[str, npt.NDArray[Any]]


class HostModel:
    """A serialized ONNX model, or (empty bytes) the identity.

    Source: onnx.reference.ReferenceEvaluator implements the operators as the ONNX specification
    defines them.
    """

    def __init__(self, serialized: bytes, what: str) -> None:
        self._what = what
        self._evaluator: ReferenceEvaluator | None = None
        self.inputs: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        if serialized:
            try:
                model = ModelProto.FromString(serialized)
                check_bounds(model.graph)
                if model.functions:
                    raise ValueError("functions of its own")
                self._evaluator = evaluator_of(model, Loop)
                self._quantized = QuantizedInputs(model)
                for item in model.graph.input:
                    self._add_input(item)
            except Exception as error:  # protobuf and the evaluator raise many exception types
                raise ArtifactError(
                    f"{what} of an artifact must be a valid ONNX model; it is damaged, compile "
                    f"it again ({type(error).__name__})"
                ) from error

    def _add_input(self, item: ValueInfoProto) -> None:
        dims = item.type.tensor_type.shape.dim
        self.inputs[item.name] = tuple(int(dim.dim_value or 1) for dim in dims)
        kind = item.type.tensor_type.elem_type
        self._dtypes[item.name] = np.dtype(tensor_dtype_to_np_dtype(kind))

    def zeros(self) -> Arrays:
        """Inputs of the right shapes and types, for measurements."""
        return {name: np.zeros(shape, self._dtypes[name]) for name, shape in self.inputs.items()}

    def run(self, values: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Outputs by name; numbers are converted where the model takes floats.

        Raises ModelError for a missing input, one of another shape or type, and NaN where it is
        quantized.
        """
        if self._evaluator is None:
            return dict(values)
        feeds: Arrays = {}
        for name, shape in self.inputs.items():
            if name not in values:
                raise ModelError(
                    f"a run must give the model's input {name!r} of shape {shape}; it got "
                    f"{', '.join(map(repr, values)) or 'nothing'}"
                )
            array = np.asarray(values[name])
            if array.shape != shape:
                raise ModelError(f"input {name!r} must have shape {shape}, not {array.shape}")
            feeds[name] = converted(name, array, self._dtypes[name])
        self._quantized.check(feeds)
        feeds = self._quantized.bounded(feeds)
        try:
            with warnings.catch_warnings(), bounded_run():
                # What is out of range inside would become the lowest integer, whatever its sign.
                warnings.filterwarnings("error", "invalid value encountered in cast")
                results = self._evaluator.run(None, feeds)
        except Exception as error:  # operators of an arbitrary model can raise anything
            raise ModelError(
                f"the host must be able to run its operators, and {self._what} failed: "
                f"{first_line(error)}; give other inputs, or export the model again"
            ) from error
        names = self._evaluator.output_names
        return {name: np.asarray(result) for name, result in zip(names, results, strict=True)}


def check_bounds(graph: GraphProto) -> None:
    """Raise ValueError for what reads other files. The compiler emits none
    (`compiler.frontend.bounds`), but the file is untrusted. Loops are bounded as they run."""
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            sparse = (attribute.sparse_tensor, *attribute.sparse_tensors)
            tensors += (attribute.t, *attribute.tensors)
            tensors += (part for item in sparse for part in (item.values, item.indices))
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    check_bounds(inner)
    tensors += (part for item in graph.sparse_initializer for part in (item.values, item.indices))
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors):
        raise ValueError("data in other files")


def converted(name: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """`array` as `dtype`. Only conversions to float are done: integers could wrap."""
    if array.dtype == dtype:
        return array
    if dtype.kind == "f" and array.dtype.kind in "fiub":
        with np.errstate(over="ignore"):
            converted = array.astype(dtype)
        if np.isinf(converted).any() and not np.isinf(array).any():
            raise ModelError(f"input {name!r} must fit {dtype}, and has larger values; scale it")
        return converted
    raise ModelError(f"input {name!r} must be {dtype}, not {array.dtype}; convert the array")
