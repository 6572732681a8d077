"""The `HostCode`s of a part in an artifact's file: an entry of the manifest, and members for bytes.

Members are the values of constants and the models of interpreted nodes, each once for all codes,
and the object code of each level.
Everything read is checked, so that wrong numbers are an ArtifactError and never a wrong address.
What the machine code itself does cannot be checked: `runtime` runs only code that it may trust.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from daedal.artifact.constants import Change, Conversion, HostConstant, Packing, Products, Values
from daedal.artifact.host_code import (
    ALIGN,
    BUFFER_BYTES,
    LEVEL_MACHINES,
    CodeCall,
    HostBuffer,
    HostCode,
    InterpretedNode,
    Join,
    Step,
)
from daedal.artifact.object_file import read_symbols
from daedal.common.fields import text, whole, wholes, word

__all__ = [
    "MAX_ENTRIES",
    "code_digest",
    "code_digests",
    "codes_from_json",
    "codes_json",
    "codes_member_names",
    "codes_members",
    "content_digest",
    "digest_of",
    "entries",
    "is_symbol",
    "object_files",
    "pieces",
]

MAX_ENTRIES = 1 << 20
"""Most buffers, steps and object files of a part."""
MAX_MEMORY_BYTES = 1 << 36
CHANGED_DTYPES = ("float32", "int16")
"""Of constants that are computed where code is loaded."""
MAX_FACTOR = 1 << 20
"""Of a matrix that constants are multiplied by."""

_VALUES, _NODES = "values", "nodes"


class _Shared:
    """What several codes have in common, each once: values of constants and models of nodes."""

    def __init__(self, codes: Iterable[HostCode]) -> None:
        self.values: dict[str, Values] = {}
        self.nodes: dict[bytes, int] = {}
        for code in codes:
            for constant in code.constants:
                self.values.setdefault(constant.values.digest, constant.values)
            for step in code.interpreted:
                self.nodes.setdefault(step.model, len(self.nodes))
        self._numbers = {digest: number for number, digest in enumerate(self.values)}

    def entry(self, code: HostCode) -> dict[str, Any]:
        """A code, without its object code."""
        return {
            "memory_bytes": code.memory_bytes,
            "buffers": [[item.offset, item.dtype, list(item.shape)] for item in code.buffers],
            "names": dict(sorted(code.names.items())),
            "inputs": list(code.inputs),
            "outputs": list(code.outputs),
            "constants": [self._constant(item) for item in code.constants],
            "steps": [self._step(step) for step in code.steps],
        }

    def _constant(self, item: HostConstant) -> list[Any]:
        changes = [dataclasses.asdict(change) for change in item.changes]
        return [item.offset, self._numbers[item.values.digest], changes]

    def _step(self, step: Step) -> dict[str, Any]:
        if isinstance(step, InterpretedNode):
            return {"op": step.op, "reason": step.reason, "node": self.nodes[step.model]}
        if isinstance(step, Join):
            return {"axis": step.axis, "buffers": list(step.buffers)}
        return {
            "symbol": step.symbol,
            "buffers": list(step.buffers),
            "iterations": step.iterations,
            "work": step.work,
            "rounds": step.rounds,
            "computes": list(step.computes),
            "products": step.products,
        }


def codes_json(codes: Sequence[HostCode]) -> dict[str, Any]:
    """The manifest entry."""
    shared = _Shared(codes)
    return {
        "values": [[item.dtype, list(item.shape)] for item in shared.values.values()],
        "nodes": [len(model) for model in shared.nodes],
        "codes": [
            shared.entry(code)
            | {"objects": {level: [len(data) for data in code.objects[level]] for level in levels}}
            for code in codes
            for levels in [sorted(code.objects)]
        ],
    }


def codes_members(codes: Sequence[HostCode]) -> dict[str, bytes]:
    """The members by name; `codes_member_names` lists them in this order."""
    shared = _Shared(codes)
    objects = {level: files for code in codes for level, files in code.objects.items()}
    return {
        _VALUES: b"".join(item.data for item in shared.values.values()),
        _NODES: b"".join(shared.nodes),
        **{level: b"".join(objects[level]) for level in sorted(objects)},
    }


def codes_member_names(item: Mapping[str, Any]) -> list[str]:
    """Names of the members of a manifest entry. Raises as `codes_from_json`."""
    levels = [level for code in entries(item["codes"]) for level in code["objects"]]
    for level in levels:
        if level not in LEVEL_MACHINES:
            raise ValueError(f"{text(level)!r} is no level of a processor")
    if len(set(levels)) < len(levels):
        raise ValueError("a level of a processor must have one code")
    return [_VALUES, _NODES, *sorted(levels)]


def code_digest(model: bytes, code: HostCode, level: str) -> str:
    """SHA-256 of everything that decides what the code of a level does, object code and addresses
    included, and of the ONNX model that it was compiled from."""
    return _level_digest(digest_of(model), code, level)


def code_digests(model: bytes, codes: Iterable[HostCode]) -> dict[str, str]:
    """`code_digest` of every level of several codes."""
    known = digest_of(model)
    return {level: _level_digest(known, code, level) for code in codes for level in code.objects}


def _level_digest(model: str, code: HostCode, level: str) -> str:
    contents = [("model", model), *_shared_digests(code)]
    contents += [("object", digest_of(data)) for data in code.objects[level]]
    return content_digest(_Shared([code]).entry(code), contents)


def _shared_digests(code: HostCode) -> list[tuple[str, str]]:
    shared = _Shared([code])
    values = [("values", digest) for digest in shared.values]
    return [*values, *(("node", digest_of(model)) for model in shared.nodes)]


def digest_of(data: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def content_digest(item: Mapping[str, Any], contents: Iterable[tuple[str, str]]) -> str:
    """SHA-256 of a manifest entry and of the digests of contents, each with its kind."""
    digest = hashlib.sha256(json.dumps(item, sort_keys=True).encode())
    for name, content in contents:
        digest.update(f"\n{name} {content}".encode())
    return digest.hexdigest()


def codes_from_json(
    item: Mapping[str, Any],
    members: Mapping[str, bytes],
    kernels: frozenset[str] = frozenset(),
) -> tuple[HostCode, ...]:
    """Codes from the manifest and its members. Raises what `isa.program.READ_FAILURES` lists.

    Calls may name functions that the object files of every level define, and `kernels`.
    """
    kinds = [(dtype, wholes(shape)) for dtype, shape in entries(item["values"])]
    sizes = [math.prod(shape) * BUFFER_BYTES[dtype] for dtype, shape in kinds]
    values = [
        Values(dtype, shape, data)
        for (dtype, shape), data in zip(kinds, pieces(members[_VALUES], sizes), strict=True)
    ]
    nodes = pieces(members[_NODES], entries(item["nodes"]))
    return tuple(_code(entry, values, nodes, members, kernels) for entry in entries(item["codes"]))


def _code(
    item: Mapping[str, Any],
    values: Sequence[Values],
    nodes: Sequence[bytes],
    members: Mapping[str, bytes],
    kernels: frozenset[str],
) -> HostCode:
    memory_bytes = whole(item["memory_bytes"], high=MAX_MEMORY_BYTES)
    constants = tuple(
        _constant(entry, values, memory_bytes) for entry in entries(item["constants"])
    )
    buffers = tuple(_buffer(entry, memory_bytes) for entry in entries(item["buffers"]))
    last = len(buffers) - 1
    names = {text(name): whole(number, high=last) for name, number in item["names"].items()}
    inputs, outputs = (tuple(text(name) for name in item[key]) for key in ("inputs", "outputs"))
    if len(set(inputs)) < len(inputs):
        raise ValueError("inputs must have different names")
    objects = {
        level: object_files(LEVEL_MACHINES[level], sizes, members[level])
        for level, sizes in item["objects"].items()
    }
    known = _common_symbols(objects) | kernels
    constant_bytes = max((constant.end for constant in constants), default=0)
    return HostCode(
        buffers=buffers,
        names=names,
        inputs=inputs,
        outputs=outputs,
        steps=_steps(item["steps"], nodes, buffers, constant_bytes, known),
        constants=constants,
        memory_bytes=memory_bytes,
        objects={level: files for level, (files, _) in objects.items()},
        from_file=True,
    )


def _constant(entry: Any, values: Sequence[Values], memory_bytes: int) -> HostConstant:
    offset, number, changes = entry
    found = HostConstant(
        whole(offset, high=memory_bytes),
        values[whole(number, high=len(values) - 1)],
        tuple(_change(item) for item in entries(changes)),
    )
    shape = found.values.shape
    for change in found.changes:
        change.check(shape)
        shape = change.shape(shape)
        if math.prod(shape) > memory_bytes:
            raise ValueError("constants must fit into the memory after every change")
    if found.offset % ALIGN or found.end > memory_bytes:
        raise ValueError("constants must be aligned and lie inside the memory")
    return found


def _change(item: Any) -> Change:
    if "order" in item:
        return Packing(wholes(item["extents"]), wholes(item["blocks"]), wholes(item["order"]))
    if item["dtype"] not in CHANGED_DTYPES:
        raise ValueError(f"what is changed must become one of {CHANGED_DTYPES}")
    if "matrix" not in item:
        return Conversion(item["dtype"])
    matrix = tuple(tuple(_real(number) for number in entries(row)) for row in item["matrix"])
    return Products(matrix, item["dtype"])


def _real(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > MAX_FACTOR:
        raise ValueError("a matrix must have numbers that are not too large")
    return value


def entries(values: Any) -> Sequence[Any]:
    """A list from the manifest, which is not too long. Raises ValueError for anything else."""
    if not isinstance(values, list) or len(values) > MAX_ENTRIES:
        raise ValueError(f"a list of at most {MAX_ENTRIES} entries must stand there")
    return values


def _buffer(entry: Any, memory_bytes: int) -> HostBuffer:
    offset, dtype, shape = entry
    found = HostBuffer(whole(offset, high=memory_bytes), text(dtype), wholes(shape))
    size = math.prod(found.shape) * BUFFER_BYTES[found.dtype]
    if found.offset % ALIGN or found.offset + size > memory_bytes:
        raise ValueError("tensors must be aligned and lie inside the memory")
    return found


def _steps(
    items: Any,
    nodes: Sequence[bytes],
    buffers: Sequence[HostBuffer],
    constant_bytes: int,
    symbols: frozenset[str],
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for item in entries(items):
        if "op" in item:
            model = nodes[whole(item["node"], high=len(nodes) - 1)]
            steps.append(InterpretedNode(model, word(item["op"]), _reason(item["reason"])))
            continue
        numbers = tuple(whole(number, high=len(buffers) - 1) for number in entries(item["buffers"]))
        if not numbers or buffers[numbers[-1]].offset < constant_bytes:
            raise ValueError("a step must have a result, which is no constant")
        if "axis" in item:
            steps.append(_join(item["axis"], numbers, buffers))
            continue
        symbol = text(item["symbol"])
        if symbol not in symbols:
            raise ValueError("a call must be of a function that the code has")
        iterations, work = whole(item["iterations"]), whole(item["work"])
        rounds = whole(item["rounds"])
        if rounds < 1 or iterations % rounds:
            raise ValueError("the iterations of a call must be so many equal rounds")
        computes = tuple(text(name) for name in entries(item["computes"]))
        products = whole(item["products"])
        steps.append(CodeCall(symbol, numbers, iterations, work, rounds, computes, products))
    return tuple(steps)


def _join(axis: Any, numbers: tuple[int, ...], buffers: Sequence[HostBuffer]) -> Join:
    """Tensors that fit each other, and their result."""
    *parts, result = (buffers[number] for number in numbers)
    place = whole(axis, high=len(result.shape) - 1)
    fixed = [(x.dtype, x.shape[:place], x.shape[place + 1 :]) for x in (*parts, result)]
    rank = len(result.shape)
    if not parts or len(set(fixed)) > 1 or any(len(part.shape) != rank for part in parts):
        raise ValueError("joined tensors must have one dtype, and one shape but along the axis")
    if sum(part.shape[place] for part in parts) != result.shape[place]:
        raise ValueError("joined tensors must fill their result")
    return Join(place, numbers)


def _reason(value: Any) -> str:
    """A sentence that may quote the names of a model."""
    return text(value)


def object_files(machine: str, sizes: Any, data: bytes) -> tuple[tuple[bytes, ...], frozenset[str]]:
    """Object files for a `machine`, and all functions that they define.

    Raises ValueError for other files, and for functions with equal or other names than the
    compiler gives.
    """
    files = tuple(pieces(data, entries(sizes)))
    found = [read_symbols(file) for file in files]
    if any(item.machine != machine for item in found):
        raise ValueError("the code of a level must be for a processor of that level")
    names = list(itertools.chain.from_iterable(item.defined for item in found))
    if len(set(names)) < len(names) or not all(is_symbol(name) for name in names):
        raise ValueError("functions must have different names")
    return files, frozenset(names)


def is_symbol(name: str) -> bool:
    """Whether the compiler gives functions such names."""
    return re.fullmatch(r"k[0-9a-f]{16}", name) is not None


def _common_symbols(
    objects: Mapping[str, tuple[tuple[bytes, ...], frozenset[str]]],
) -> frozenset[str]:
    """What every level defines."""
    every = [symbols for _, symbols in objects.values()]
    return frozenset.intersection(*every) if every else frozenset()


def pieces(data: bytes, sizes: Sequence[Any]) -> list[bytes]:
    """Consecutive pieces, which must be all of `data`: raises ValueError."""
    ends = list(itertools.accumulate((whole(size) for size in sizes), initial=0))
    if ends[-1] != len(data):
        raise ValueError("sizes of pieces must come to the size of their member")
    return [data[begin:end] for begin, end in itertools.pairwise(ends)]
