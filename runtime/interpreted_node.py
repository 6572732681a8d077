"""`InterpretedModel`: a small ONNX model that ONNX's reference evaluator runs.

Tensors are numpy arrays, sequences lists, absent optional values None.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from onnx import ModelProto

from daedal.common.errors import ArtifactError, ModelError, first_line
from daedal.common.onnx_evaluator import evaluator_of
from daedal.runtime.bounded_loop import Loop, bounded_run
from daedal.runtime.host import check_bounds

__all__ = ["InterpretedModel"]


class InterpretedModel:
    """A serialized model. Raises ArtifactError where it is none.

    Attributes
    ----------
    inputs, outputs : names of what it reads and gives, in its order.
    """

    def __init__(self, serialized: bytes, what: str) -> None:
        self._what = what
        try:
            model = ModelProto.FromString(serialized)
            check_bounds(model.graph)
            self._evaluator = evaluator_of(model, Loop)
        except Exception as error:  # protobuf and the evaluator raise many exception types
            raise ArtifactError(
                f"{what} of an artifact must be a valid ONNX model; it is damaged, compile it "
                f"again ({type(error).__name__})"
            ) from error
        self.inputs = tuple(str(item.name) for item in model.graph.input)
        self.outputs = tuple(str(item.name) for item in model.graph.output)

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Results by name. Raises ModelError where the evaluator fails."""
        feeds = {name: values[name] for name in self.inputs}
        try:
            with warnings.catch_warnings(), bounded_run():
                warnings.simplefilter("ignore")
                results = self._evaluator.run(list(self.outputs), feeds)
        except Exception as error:  # operators of an arbitrary model can raise anything
            raise ModelError(
                f"the host must be able to run its operators, and {self._what} failed: "
                f"{first_line(error)}; give other inputs, or export the model again"
            ) from error
        return dict(zip(self.outputs, results, strict=True))
