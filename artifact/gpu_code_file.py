"""`GpuCode` in an artifact's file: an entry of the manifest, and members for bytes.

Members are those of a `HostCode`, and the images of each architecture.
Everything read is checked as for a `HostCode`. What images do cannot be checked: `runtime` runs
only those that it may trust.
"""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from daedal.artifact.code import (
    codes_from_json,
    codes_json,
    codes_member_names,
    codes_members,
    content_digest,
    digest_of,
    entries,
    is_symbol,
    object_files,
    pieces,
)
from daedal.artifact.gpu_code import (
    CORE_BYTES,
    CUBIN,
    EMULATED,
    PRECISIONS,
    SPIRV,
    Extents,
    GpuCode,
    GpuKernel,
    ProcessorKernel,
    TensorMap,
)
from daedal.artifact.host_code import BUFFER_BYTES, LEVEL_MACHINES
from daedal.artifact.spirv_file import entry_points
from daedal.common.fields import text, whole, wholes

__all__ = ["gpu_digest", "gpu_from_json", "gpu_json", "gpu_member_names", "gpu_members"]

MAX_BLOCKS = (2**31 - 1, 65535, 65535)
MAX_THREADS = (1024, 1024, 64)
MAX_THREADS_OF_BLOCK = 1024
MAX_SHARED_BYTES = 227 * 1024
"""Source of all limits: CUDA C++ Programming Guide, "Compute Capabilities", 8.0 to 9.0."""

MAX_RANK, MAX_EXTENT, MAX_BOX = 5, 2**32, 256
"""Of a map. Source: CUDA Driver API 13.0, "cuTensorMapEncodeTiled"."""
MAX_ARGUMENTS = 512

_PREFIX = "gpu."
"""Begins the names of members."""
_CUBIN = re.compile(rb"\x7fELF\x02\x01.{12}\xbe\x00", re.DOTALL)
"""An ELF file of 64 bits for a GPU of NVIDIA's: machine 190."""


def gpu_json(code: GpuCode) -> dict[str, Any]:
    """The manifest entry."""
    return {
        "host": codes_json([code.host]),
        "kernels": [
            {
                "symbol": item.symbol,
                "grid": list(item.grid),
                "block": list(item.block),
                "shared_bytes": item.shared_bytes,
                "local_bytes": item.local_bytes,
                "cores": item.cores,
                "maps": [
                    [part.argument, part.dtype, list(part.shape), list(part.box)]
                    for part in item.maps
                ],
            }
            for item in code.kernels
        ],
        "on_processor": [[item.symbol, item.reason] for item in code.on_processor],
        "precision": code.precision,
        "images": {name: [len(data) for data in code.images[name]] for name in sorted(code.images)},
    }


def gpu_members(code: GpuCode) -> dict[str, bytes]:
    """The members by name; `gpu_member_names` lists them in this order."""
    images = {name: b"".join(code.images[name]) for name in sorted(code.images)}
    return {_PREFIX + end: data for end, data in (codes_members([code.host]) | images).items()}


def gpu_member_names(item: Mapping[str, Any]) -> list[str]:
    """Names of the members of a manifest entry. Raises as `gpu_from_json`."""
    for name in item["images"]:
        if not _is_architecture(text(name)):
            raise ValueError(f"{name!r} is no architecture of a GPU")
    return [_PREFIX + end for end in (*codes_member_names(item["host"]), *sorted(item["images"]))]


def gpu_digest(model: bytes, code: GpuCode, architecture: str) -> str:
    """SHA-256 of everything that decides what the code for an architecture does, and of the ONNX
    model that it was compiled from."""
    item = {key: value for key, value in gpu_json(code).items() if key != "images"}
    contents = [("model", model), *codes_members([code.host]).items()]
    contents += [("image", data) for data in code.images[architecture]]
    return content_digest(
        {**item, "architecture": architecture}, ((end, digest_of(data)) for end, data in contents)
    )


def gpu_from_json(item: Mapping[str, Any], members: Mapping[str, bytes]) -> GpuCode:
    """Code from the manifest and its members. Raises what `isa.program.READ_FAILURES` lists."""
    kernels = tuple(_kernel(entry) for entry in entries(item["kernels"]))
    symbols = frozenset(kernel.symbol for kernel in kernels)
    if len(symbols) < len(kernels):
        raise ValueError("kernels must have different names")
    own = {name.removeprefix(_PREFIX): members[name] for name in gpu_member_names(item)}
    others = tuple(_processor_kernel(entry) for entry in entries(item["on_processor"]))
    functions = sorted(kernel.symbol for kernel in others)
    (host,) = codes_from_json(item["host"], own, symbols)
    called = {call.symbol for call in host.calls} - symbols
    if functions != sorted(called) or bool(functions) != bool(host.objects):
        raise ValueError("code for processors must be that of the functions that they run")
    own_kernels = {kernel.symbol: kernel for kernel in kernels}
    for call in host.calls:
        for part in own_kernels[call.symbol].maps if call.symbol in own_kernels else ():
            buffer = host.buffers[call.buffers[part.argument]]
            held = math.prod(buffer.shape) * BUFFER_BYTES[buffer.dtype]
            if math.prod(part.shape) * CORE_BYTES[part.dtype] > held:
                raise ValueError("a map must be of a tensor that the call gives")
    images = {
        name: _images(name, sizes, own[name], symbols) for name, sizes in item["images"].items()
    }
    if text(item["precision"]) not in PRECISIONS:
        raise ValueError(f"a precision must be one of {', '.join(PRECISIONS)}")
    return GpuCode(host, kernels, images, others, item["precision"])


def _is_architecture(name: str) -> bool:
    if name.startswith(EMULATED):
        return name.removeprefix(EMULATED) in LEVEL_MACHINES
    return name == SPIRV or re.fullmatch(r"sm_[0-9]{2,3}[a-z]?(\.cubin)?", name) is not None


def _kernel(entry: Any) -> GpuKernel:
    if not is_symbol(text(entry["symbol"])):
        raise ValueError("a kernel must have a name that the compiler gives")
    if entry["cores"] and entry["cores"] not in CORE_BYTES:
        raise ValueError("products of tensor cores must have a dtype")
    found = GpuKernel(
        entry["symbol"],
        _extents(entry["grid"], MAX_BLOCKS),
        _extents(entry["block"], MAX_THREADS),
        whole(entry["shared_bytes"], high=MAX_SHARED_BYTES),
        whole(entry["local_bytes"]),
        text(entry["cores"]),
        tuple(_map(*item) for item in entries(entry["maps"])),
    )
    x, y, z = found.block
    if x * y * z > MAX_THREADS_OF_BLOCK:
        raise ValueError(f"a block must have at most {MAX_THREADS_OF_BLOCK} threads")
    return found


def _map(argument: Any, dtype: Any, shape: Any, box: Any) -> TensorMap:
    extents, boxes = wholes(shape), wholes(box)
    if text(dtype) not in CORE_BYTES or not 1 <= len(extents) == len(boxes) <= MAX_RANK:
        raise ValueError("maps must be of 1 to 5 dimensions of int8, float16 or bfloat16")
    return TensorMap(
        whole(argument, high=MAX_ARGUMENTS),
        dtype,
        tuple(whole(item, 1, MAX_EXTENT) for item in extents),
        tuple(whole(item, 1, MAX_BOX) for item in boxes),
    )


def _processor_kernel(entry: Any) -> ProcessorKernel:
    symbol, reason = entry
    if not is_symbol(text(symbol)):
        raise ValueError("a function must have a name that the compiler gives")
    return ProcessorKernel(symbol, text(reason))


def _extents(values: Any, most: Sequence[int]) -> Extents:
    x, y, z = wholes(values)
    return whole(x, 1, most[0]), whole(y, 1, most[1]), whole(z, 1, most[2])


def _images(
    architecture: str, sizes: Any, data: bytes, symbols: frozenset[str]
) -> tuple[bytes, ...]:
    """What a device loads: functions that the kernels name."""
    if architecture.startswith(EMULATED):
        level = architecture.removeprefix(EMULATED)
        files, defined = object_files(LEVEL_MACHINES[level], sizes, data)
    else:
        files = tuple(pieces(data, entries(sizes)))
        defined = frozenset(
            itertools.chain.from_iterable(_entries(architecture, file, symbols) for file in files)
        )
    if not symbols <= defined:
        raise ValueError("every architecture must have every kernel")
    return files


def _entries(architecture: str, image: bytes, symbols: frozenset[str]) -> Iterable[str]:
    """Kernels that an image defines, as far as can be seen: a driver checks a cubin."""
    if architecture == SPIRV:
        return entry_points(image)
    if architecture.endswith(CUBIN) and not _CUBIN.match(image):
        raise ValueError("machine code for a GPU must be a cubin")
    if _CUBIN.match(image):
        return (name for name in symbols if name.encode() in image)
    if b"\0" in image or not image.isascii():
        raise ValueError("an image must be a cubin, or PTX")
    return re.findall(r"\.entry\s+(\w+)", image.decode("ascii"))
