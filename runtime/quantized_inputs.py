"""`QuantizedInputs`: float inputs of a host part that are quantized as they are.

ONNX saturates what is beyond the range of the integers, infinities among it; for NaN it says
nothing. `onnx.reference` converts to 32-bit integers first, so values are bounded before.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, numpy_helper

from daedal.common.errors import ModelError

__all__ = ["QuantizedInputs"]

Array = npt.NDArray[Any]

_STEPS = 2.0**30
"""Beyond the integers of every quantized type, and within 32 bits."""


class QuantizedInputs:
    """Inputs that a QuantizeLinear with a constant scale reads.

    Attributes
    ----------
    limits : by name, the magnitude beyond which every value saturates.
    alone : those that nothing else reads.
    """

    def __init__(self, model: ModelProto) -> None:
        graph = model.graph
        inputs = {item.name for item in graph.input}
        constants = {item.name: item for item in graph.initializer}
        self.limits: dict[str, float] = {}
        others = {item.name for item in graph.output}
        for node in graph.node:
            for index, name in enumerate(node.input):
                scale = constants.get(node.input[1]) if len(node.input) > 1 else None
                if node.op_type == "QuantizeLinear" and index == 0 and scale is not None:
                    scales = np.abs(numpy_helper.to_array(scale).astype(np.float64))
                    largest = scales.max(initial=0)  # of an empty tensor, there may be none
                    limit = max(float(largest) * _STEPS, self.limits.get(name, 0.0))
                    self.limits[name] = limit
                else:
                    others.add(name)
        self.limits = {name: limit for name, limit in self.limits.items() if name in inputs}
        self.alone = self.limits.keys() - others

    def check(self, values: Mapping[str, Array]) -> None:
        """Raise ModelError for NaN, which no integer stands for."""
        for name in self.limits.keys() & values.keys():
            array = np.asarray(values[name])
            if array.dtype.kind == "f" and np.isnan(array).any():
                raise ModelError(f"input {name!r} is quantized, and must not have NaN; clean it")

    def bounded(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The values with those bounded that only QuantizeLinear reads."""
        found = dict(values)
        for name in self.alone & values.keys():
            array = np.asarray(values[name])
            if array.dtype.kind == "f":
                limit = min(self.limits[name], float(np.finfo(array.dtype).max))
                found[name] = np.clip(array, -limit, limit)
        return found
