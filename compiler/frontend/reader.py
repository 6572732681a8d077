"""Reads an ONNX file into a checked ModelProto. The file is untrusted.

Input: a path or the bytes of a file. Output: a ModelProto that passed onnx's own checker, holds all
its data itself (a path may have files of data in its folder) and stays within our bounds, with its
own functions inlined and operators on quantized tensors (`qoperators`) expanded.
"""

from os import PathLike
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from daedal.common.errors import ModelError, first_line
from daedal.common.inputs import read_input
from daedal.compiler.frontend.bounds import check_bounds
from daedal.compiler.frontend.conditions import check_conditions
from daedal.compiler.frontend.external import load_external_data
from daedal.compiler.frontend.functions import check_functions, inline_functions
from daedal.compiler.frontend.qoperators import expand_qoperators

__all__ = ["MAX_MODEL_BYTES", "MIN_OPSET", "Source", "opset_of", "read_model", "source_of"]

MAX_MODEL_BYTES = 1 << 30
MIN_OPSET = 7


Source = str | Path | bytes | onnx.ModelProto
"""What the public functions take as a model: a file's path, its bytes, or the model itself."""


def source_of(model: Source) -> Path | bytes:
    """A path or bytes, as `read_model` takes them.

    Raises ModelError for anything else, and for a model that protobuf cannot write.
    """
    if isinstance(model, onnx.ModelProto):
        try:
            return bytes(model.SerializeToString())
        except (EncodeError, ValueError) as error:
            raise ModelError(
                "a model in memory must be one that protobuf can write, and this one is not: "
                f"{first_line(error)}; save it with external data, and give its path"
            ) from error
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model)
    if isinstance(model, str | PathLike):
        return Path(model)
    raise ModelError(
        "a model must be the path of an ONNX file, its bytes or an onnx.ModelProto, not "
        f"{type(model).__name__}; give one of these"
    )


def read_model(source: str | Path | bytes, *, loops: bool = False) -> onnx.ModelProto:
    """Parse and check a model; with `loops`, it may have Loops, which only `runtime.host` bounds.

    Raises
    ------
    ModelError
        For a file that cannot be read, is too large, is truncated or is not valid ONNX.
    """
    data = (
        source
        if isinstance(source, bytes)
        else read_input(source, "a model", MAX_MODEL_BYTES, ModelError)
    )
    if len(data) > MAX_MODEL_BYTES:
        raise ModelError(
            f"a model must have at most {MAX_MODEL_BYTES} bytes, not {len(data)}; "
            "use a smaller model"
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(
            f"a model must be a complete ONNX file, and these {len(data)} bytes are not one "
            "(damaged or truncated); export or download it again"
        ) from error
    if not isinstance(source, bytes):
        load_external_data(model, Path(source).parent, MAX_MODEL_BYTES - len(data))
    _check(model, loops)
    if model.functions:
        model = inline_functions(model)
        _check(model, loops)
    expand_qoperators(model)
    return model


def _check(model: onnx.ModelProto, loops: bool) -> None:
    check_bounds(model, loops=loops)
    check_functions(model)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        reason = first_line(error).rstrip(" :.")
        raise ModelError(
            f"a model must be valid ONNX, and this one is not: {reason}; export it again"
        ) from error
    check_conditions(model)


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the standard operator set that the model uses."""
    versions = [item.version for item in model.opset_import if item.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    if len(versions) != 1 or not MIN_OPSET <= versions[0] <= newest:
        found = ", ".join(str(version) for version in versions) or "none"
        raise ModelError(
            f"a model must use one ONNX opset from {MIN_OPSET} to {newest}, not {found}; "
            "convert it with onnx.version_converter"
        )
    return int(versions[0])
