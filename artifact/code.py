"""`HostCode` in an artifact's file: an entry of the manifest, and members for bytes.

Members are the constants, the models of the interpreted nodes, and the object code of each level.
Everything read is checked, so that wrong numbers are an ArtifactError and never a wrong address.
What the machine code itself does cannot be checked: `runtime` runs only code that it may trust.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    "code_from_json",
    "code_json",
    "code_member_names",
    "code_members",
    "content_digest",
    "entries",
    "is_symbol",
    "object_files",
    "pieces",
]

MAX_ENTRIES = 1 << 20
"""Most buffers, steps and object files of a part."""
MAX_MEMORY_BYTES = 1 << 36

_CONSTANTS, _NODES = "constants", "nodes"


def code_json(code: HostCode) -> dict[str, Any]:
    """The manifest entry."""
    return {
        "memory_bytes": code.memory_bytes,
        "buffers": [[item.offset, item.dtype, list(item.shape)] for item in code.buffers],
        "names": dict(sorted(code.names.items())),
        "inputs": list(code.inputs),
        "outputs": list(code.outputs),
        "steps": [_step_json(step) for step in code.steps],
        "objects": {
            level: [len(data) for data in code.objects[level]] for level in sorted(code.objects)
        },
    }


def code_members(code: HostCode) -> dict[str, bytes]:
    """The members by name; `code_member_names` lists them in this order."""
    return {
        _CONSTANTS: code.constants,
        _NODES: b"".join(step.model for step in code.interpreted),
        **{level: b"".join(code.objects[level]) for level in sorted(code.objects)},
    }


def code_member_names(item: Mapping[str, Any]) -> list[str]:
    """Names of the members of a manifest entry. Raises as `code_from_json`."""
    for level in item["objects"]:
        if level not in LEVEL_MACHINES:
            raise ValueError(f"{text(level)!r} is no level of a processor")
    return [_CONSTANTS, _NODES, *sorted(item["objects"])]


def code_digest(model: bytes, code: HostCode, level: str) -> str:
    """SHA-256 of everything that decides what the code of a level does, object code and addresses
    included, and of the ONNX model that it was compiled from."""
    item = {key: value for key, value in code_json(code).items() if key != "objects"}
    members = code_members(code)
    contents = [
        ("model", model),
        *((end, members[end]) for end in (_CONSTANTS, _NODES)),
        *(("object", data) for data in code.objects[level]),
    ]
    return content_digest(item, contents)


def content_digest(item: Mapping[str, Any], contents: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 of a manifest entry and of named bytes, whose sizes count."""
    digest = hashlib.sha256(json.dumps(item, sort_keys=True).encode())
    for name, data in contents:
        digest.update(f"\n{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def code_from_json(
    item: Mapping[str, Any],
    members: Mapping[str, bytes],
    kernels: frozenset[str] = frozenset(),
) -> HostCode:
    """Code from the manifest and its members. Raises what `isa.program.READ_FAILURES` lists.

    Calls may name functions that the object files of every level define, and `kernels`.
    """
    memory_bytes = whole(item["memory_bytes"], high=MAX_MEMORY_BYTES)
    constants = members[_CONSTANTS]
    if len(constants) > memory_bytes:
        raise ValueError("constants must fit into the memory")
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
    nodes = iter(pieces(members[_NODES], [x["size"] for x in item["steps"] if "op" in x]))
    return HostCode(
        buffers=buffers,
        names=names,
        inputs=inputs,
        outputs=outputs,
        steps=_steps(item["steps"], nodes, buffers, len(constants), known),
        constants=constants,
        memory_bytes=memory_bytes,
        objects={level: files for level, (files, _) in objects.items()},
        from_file=True,
    )


def _step_json(step: Step) -> dict[str, Any]:
    if isinstance(step, InterpretedNode):
        return {"op": step.op, "reason": step.reason, "size": len(step.model)}
    if isinstance(step, Join):
        return {"axis": step.axis, "buffers": list(step.buffers)}
    return {
        "symbol": step.symbol,
        "buffers": list(step.buffers),
        "iterations": step.iterations,
        "work": step.work,
        "rounds": step.rounds,
    }


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
    nodes: Any,
    buffers: Sequence[HostBuffer],
    constant_bytes: int,
    symbols: frozenset[str],
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for item in entries(items):
        if "op" in item:
            steps.append(InterpretedNode(next(nodes), word(item["op"]), _reason(item["reason"])))
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
        rounds = whole(item.get("rounds", 1))
        if rounds < 1 or iterations % rounds:
            raise ValueError("the iterations of a call must be so many equal rounds")
        steps.append(CodeCall(symbol, numbers, iterations, work, rounds))
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
