"""Reads the data that an ONNX model keeps in other files of its folder. The files are untrusted.

Input: a parsed ModelProto and the folder of its file. Output: the same ModelProto with all data in
it. Source: ONNX, docs/ExternalData.md.
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from daedal.common.errors import ModelError
from daedal.common.inputs import open_input

__all__ = ["load_external_data"]

_SHOWN_LENGTH = 100
_BITS: dict[int, int] = {
    onnx.TensorProto.INT4: 4,
    onnx.TensorProto.UINT4: 4,
    onnx.TensorProto.FLOAT4E2M1: 4,
}
"""Of an element, where it is less than a byte."""


def load_external_data(model: onnx.ModelProto, folder: Path, max_bytes: int) -> None:
    """Put the data of every tensor into `model`, from files below `folder`.

    Raises
    ------
    ModelError
        For a location outside the folder, also by a link; a file that cannot be read or is too
        short; data that is not as long as its tensor; and more than `max_bytes` in all.
    """
    left = max_bytes
    for tensor in _tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        size = _size_bytes(tensor)
        left -= size
        if left < 0:
            raise ModelError(
                f"a model must have at most {max_bytes} bytes in all its files, and tensor "
                f"{_name(tensor)} exceeds them; use a smaller model"
            )
        data = _read(tensor, folder, size)
        del tensor.external_data[:]
        tensor.ClearField("data_location")
        tensor.raw_data = data


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a model that may have data elsewhere; protobuf bounds how deep they nest."""
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            yield from (attribute.t, *attribute.tensors)
            graphs += [inner for inner in (attribute.g, *attribute.graphs) if inner.node]


def _name(tensor: onnx.TensorProto) -> str:
    return repr(str(tensor.name)[:_SHOWN_LENGTH])


def _size_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes of a tensor. Raises ModelError where its type has no fixed size."""
    count = 1
    for extent in tensor.dims:
        count *= max(int(extent), 0)
    try:
        bits = _BITS.get(tensor.data_type) or (
            8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        )
    except KeyError:
        bits = 0
    if not bits or tensor.data_type == onnx.TensorProto.STRING:
        raise ModelError(
            f"external data must be numbers, and tensor {_name(tensor)} is of another type; save "
            "it inside the model"
        )
    return (count * bits + 7) // 8


def _read(tensor: onnx.TensorProto, folder: Path, size: int) -> bytes:
    entries = {str(item.key): str(item.value) for item in tensor.external_data}
    path = _path(tensor, folder, entries.get("location", ""))
    offset = _number(tensor, entries.get("offset", "0"))
    length = _number(tensor, entries.get("length", str(size)))
    if length != size:
        raise ModelError(
            f"external data must be as long as its tensor, {size} bytes for {_name(tensor)}, not "
            f"{length}; export the model again"
        )
    with open_input(path, "external data", ModelError) as file:
        try:
            if os.fstat(file.fileno()).st_size < offset + size:
                raise ModelError(
                    f"external data must have {size} bytes at {offset} for tensor {_name(tensor)}, "
                    f"and {path.name!r} is shorter; copy or export it again"
                )
            file.seek(offset)
            data = file.read(size)
        except OSError as error:
            raise ModelError(
                f"external data must be readable, and {path.name!r} is not: {error.strerror}"
            ) from error
    if len(data) != size:
        raise ModelError(f"external data must stay as it is while it is read, not {path.name!r}")
    return data


def _path(tensor: onnx.TensorProto, folder: Path, location: str) -> Path:
    """The file of a location, which is below `folder` with all links followed."""
    relative = PurePosixPath(location)
    inside = (
        location.isprintable()
        and bool(relative.parts)
        and not relative.is_absolute()
        and not PureWindowsPath(location).drive
        and "\\" not in location
        and ".." not in relative.parts
    )
    if inside:
        try:
            path = (folder / relative).resolve()
            inside = path.is_relative_to(folder.resolve())
        except (OSError, RuntimeError, ValueError):
            inside = False
    if not inside:
        raise ModelError(
            f"external data must lie in the folder of its model, and tensor {_name(tensor)} names "
            f"{location[:_SHOWN_LENGTH]!r}; save the model with its data inside"
        )
    return path


def _number(tensor: onnx.TensorProto, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ModelError(
            f"external data must have an offset and a length in bytes, not "
            f"{text[:_SHOWN_LENGTH]!r} (tensor {_name(tensor)}); export the model again"
        )
    return int(text)
