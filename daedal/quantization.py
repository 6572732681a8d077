"""The public function `quantize`: a float ONNX model to an int8 one, calibrated with samples.

>>> model = daedal.quantize("mobilenet.onnx", images)
>>> artifact = daedal.compile(model, "vta")
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy.typing as npt
import onnx

from daedal.common.errors import UserError
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.frontend.reader import Source
from daedal.compiler.quantization import Method, quantize_model
from daedal.compiler.quantization.calibration.float_runner import evaluate
from daedal.compiler.quantization.layer_errors import LayerError
from daedal.compiler.quantization.narrow_layers import WEIGHT_ERROR, LayerWeights
from daedal.runtime.host_code import HostProgram

__all__ = ["open_compiled", "quantize"]

Arrays = Mapping[str, npt.NDArray[Any]]


def quantize(
    model: Source,
    samples: Mapping[str, npt.ArrayLike] | npt.ArrayLike,
    *,
    method: str = Method.MSE,
    fuse_attention: bool = True,
    report: Callable[[str], None] | None = None,
    errors: Callable[[list[LayerError]], None] | None = None,
    weights: str = "int8",
    weight_error: float = WEIGHT_ERROR,
    layers: Callable[[list[LayerWeights]], None] | None = None,
    exclude: Collection[str] = (),
) -> bytes:
    """Quantize a float32 ONNX model to an int8 QDQ model, which `daedal.compile` takes.

    `samples` hold inputs that the network will see, along axis 0: an array, or arrays by input;
    a hundred or more are good. `method` says how ranges follow from them: ``mse`` (least squared
    error), ``percentile`` (all but the largest 0.01 %) or ``minmax``. With `fuse_attention`,
    nothing between the products of attention is quantized, so that variants with lane reductions
    keep scores on chip; for other variants, turn it off. `report` is called with a sentence before
    each long step, and `errors`, if given, with how much quantization changes each tensor.

    With `weights` of ``int4``, as many layers get weights of 4 bits as change the model's outputs
    by at most `weight_error`, a share of their deviation; the others keep 8. Machines with
    `units.narrow_weights` read them in half the time. `layers` is then called with all layers that
    have weights.

    Nodes of the model that `exclude` names, or whose results it names, stay in float, and the host
    runs them.

    Raises ModelError for a model that cannot be quantized, samples that do not fit it, and nodes
    that it does not have.
    """
    quantized = quantize_model(
        model,
        samples,
        method=method,
        fuse_attention=fuse_attention,
        open_model=open_compiled,
        report=report,
        errors=errors,
        weights=weights,
        weight_error=weight_error,
        layers=layers,
        exclude=exclude,
    )
    return bytes(quantized.SerializeToString(deterministic=True))


def open_compiled(model: onnx.ModelProto) -> Callable[[Arrays], Arrays]:
    """A model as machine code for this processor, or in the reference evaluator where LLVM has no
    code for it."""
    modern = modern_model(model)
    try:
        return HostProgram(build_host_code(modern)).run
    except UserError:
        return evaluate(modern)
