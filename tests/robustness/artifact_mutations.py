"""Mutations of an artifact: of its zip, of its manifests, of its programs, of its host's parts.

Below the level of the zip, hashes are made again, so that what is changed reaches what reads it.
"""

import hashlib
import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from tests.robustness.gentle_mutations import GENTLE_MUTATIONS
from tests.robustness.graph_mutations import GRAPH_MUTATIONS
from tests.robustness.nasty import nasty_integer, nasty_name, nasty_real, pick
from tests.robustness.nesting_mutations import NESTING_MUTATIONS
from tests.robustness.value_mutations import VALUE_MUTATIONS

__all__ = ["ARTIFACT_MUTATIONS", "CPU_ARTIFACT_MUTATIONS", "ArtifactMutation"]

Rng = np.random.Generator
ArtifactMutation = Callable[[Rng, bytes], bytes]
Members = dict[str, bytes]

_MANIFEST = "manifest.json"
_BOMB_BYTES = 1 << 26


def _members(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zip(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _sealed(members: Members) -> bytes:
    """An artifact with the hash that its manifest and its parts have."""
    manifest = json.loads(members[_MANIFEST])
    said = manifest
    if isinstance(manifest, dict):
        said = {name: item for name, item in manifest.items() if name != "sha256"}
    parts = [content for name, content in members.items() if name != _MANIFEST]
    digest = hashlib.sha256()
    for content in (json.dumps(said, sort_keys=True).encode(), *parts):
        digest.update(len(content).to_bytes(8, "little") + content)
    if isinstance(manifest, dict) and "sha256" in manifest:
        manifest["sha256"] = digest.hexdigest()
    return _zip({**members, _MANIFEST: json.dumps(manifest).encode()})


def _sealed_program(members: Members) -> bytes:
    manifest = json.loads(members[_MANIFEST])
    content = members["instructions.bin"] + members["constants.bin"]
    if isinstance(manifest, dict) and "sha256" in manifest:
        manifest["sha256"] = hashlib.sha256(content).hexdigest()
    return _zip({**members, _MANIFEST: json.dumps(manifest).encode()})


def _with_program(rng: Rng, data: bytes, change: Callable[[Members], None]) -> bytes:
    """The artifact with one of its programs changed."""
    members = _members(data)
    name = pick(rng, [name for name in members if name.endswith(".daedal")])
    program = _members(members[name])
    change(program)
    return _sealed({**members, name: _sealed_program(program)})


def change_members(rng: Rng, data: bytes) -> bytes:
    """A member too few or too many, under another name, or with another's content."""
    members = _members(data)
    name, other = pick(rng, list(members)), pick(rng, list(members))
    kind = int(rng.integers(4))
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[nasty_name(rng)[:1_000] or "more"] = rng.bytes(20)
    elif kind == 2:
        members[pick(rng, ("../../escaped", "/escaped", "a/../b"))] = members.pop(name)
    else:
        members[name] = members[other]
    return _zip(members)


def duplicate_member(rng: Rng, data: bytes) -> bytes:
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile notices
        archive.writestr(pick(rng, archive.namelist()), rng.bytes(10))
    return buffer.getvalue()


def link_member(rng: Rng, data: bytes) -> bytes:
    """A member that says it is a symbolic link."""
    members = _members(data)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            archive.writestr(info, pick(rng, (content, b"/etc/passwd")))
    return buffer.getvalue()


def inflate_member(rng: Rng, data: bytes) -> bytes:
    """A few bytes that unpack to many."""
    members = _members(data)
    members[pick(rng, [*members, "bomb"])] = bytes(_BOMB_BYTES)
    return _zip(members)


def change_directory(rng: Rng, data: bytes) -> bytes:
    """A wrong size, check sum, method, flag or offset in the zip's directory.

    Source: APPNOTE 4.3.12, central directory header: offsets in it.
    """
    begin = data.rindex(b"PK\x01\x02") if rng.random() < 0.5 else data.index(b"PK\x01\x02")
    offset, form = pick(
        rng, ((8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"), (42, "<I"))
    )
    limit = (1 << 8 * struct.calcsize(form)) - 1
    changed = bytearray(data)
    struct.pack_into(form, changed, begin + offset, nasty_integer(rng) & limit)
    return bytes(changed)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything in a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, ...]] = []
    for key, inner in items:
        found.append((*path, key))
        if isinstance(inner, (dict, list)):
            found += _places(inner, (*path, key))
    return found


def _nasty_value(rng: Rng) -> Any:
    values = (None, True, {}, [], [[]], "", "0", 1 << 70, 1e308, -1, 0.5, {"a": 1}, [1] * 100)
    numbers = (nasty_integer(rng), nasty_real(rng), int(rng.integers(1, 40)), nasty_name(rng))
    return pick(rng, (*values, *numbers, *numbers))


def _change_json(rng: Rng, text: bytes) -> bytes:
    """One to three changes of a document: something gone, twice, moved or something else."""
    document = json.loads(text)
    for _ in range(int(rng.integers(1, 4))):
        *path, last = pick(rng, _places(document))
        inner = document
        for key in path:
            inner = inner[key]
        if rng.random() < 0.2:
            del inner[last]
        elif isinstance(inner, list) and rng.random() < 0.3:
            inner.insert(0, inner[last])
        else:
            inner[last] = _nasty_value(rng)
    return json.dumps(document).encode()


def change_manifest(rng: Rng, data: bytes) -> bytes:
    members = _members(data)
    return _sealed({**members, _MANIFEST: _change_json(rng, members[_MANIFEST])})


def replace_manifest(rng: Rng, data: bytes) -> bytes:
    """No JSON, no object, or one that nests without end."""
    deep = b"[" * 100_000 + b"]" * 100_000
    texts = (b"", b"null", b"[]", b"3", b'"x"', b"{", b"\xff\xfe", b"NaN", deep, b"9" * 10_000)
    return _zip({**_members(data), _MANIFEST: pick(rng, texts)})


def change_program_manifest(rng: Rng, data: bytes) -> bytes:
    def change(program: Members) -> None:
        program[_MANIFEST] = _change_json(rng, program[_MANIFEST])

    return _with_program(rng, data, change)


def flip_instruction_bits(rng: Rng, data: bytes) -> bytes:
    def change(program: Members) -> None:
        code = bytearray(program["instructions.bin"])
        for _ in range(int(pick(rng, (1, 1, 2, 8)))):
            code[int(rng.integers(len(code)))] ^= 1 << int(rng.integers(8))
        program["instructions.bin"] = bytes(code)

    return _with_program(rng, data, change)


def move_instructions(rng: Rng, data: bytes) -> bytes:
    """Instructions left out, twice, in another order, or cut off. 32 bytes move at a time, which
    is one instruction or a part of one."""

    def change(program: Members) -> None:
        code = program["instructions.bin"]
        pieces = [code[begin : begin + 32] for begin in range(0, len(code), 32)]
        first, second = (int(item) for item in rng.integers(len(pieces), size=2))
        kind = int(rng.integers(5))
        if kind == 0:
            del pieces[first]
        elif kind == 1:
            pieces.insert(first, pieces[second])
        elif kind == 2:
            pieces[first], pieces[second] = pieces[second], pieces[first]
        elif kind == 3:
            del pieces[first:]
        else:
            pieces *= 20
        program["instructions.bin"] = b"".join(pieces)

    return _with_program(rng, data, change)


def change_constants(rng: Rng, data: bytes) -> bytes:
    """Other micro-ops, weights and parameters, fewer or more of them."""

    def change(program: Members) -> None:
        constants = bytearray(program["constants.bin"])
        for _ in range(int(rng.integers(1, 40))):
            constants[int(rng.integers(len(constants)))] = int(rng.integers(256))
        kept = pick(rng, (len(constants), len(constants) // 2, 0))
        program["constants.bin"] = bytes(constants[:kept])

    return _with_program(rng, data, change)


def change_host_part(rng: Rng, data: bytes) -> bytes:
    """The mutations of models, on a part of the host."""
    members = _members(data)
    names = [name for name in members if name.endswith(".onnx") and members[name]]
    if not names:
        return change_manifest(rng, data)
    name = pick(rng, names)
    model = onnx.ModelProto.FromString(members[name])
    mutations = (*GENTLE_MUTATIONS, *GRAPH_MUTATIONS, *VALUE_MUTATIONS, *NESTING_MUTATIONS)
    pick(rng, mutations)(rng, model)
    return _sealed({**members, name: model.SerializeToString()})


def change_code(rng: Rng, data: bytes) -> bytes:
    """Object files and constants of compiled code with some other bytes, or fewer."""
    members = _members(data)
    names = [name for name in members if name != _MANIFEST and not name.endswith(".onnx")]
    name = pick(rng, names)
    content = bytearray(members[name])
    for _ in range(int(rng.integers(1, 40)) if content else 0):
        content[int(rng.integers(len(content)))] = int(rng.integers(256))
    kept = pick(rng, (len(content), len(content), len(content) // 2, 0))
    return _sealed({**members, name: bytes(content[:kept])})


ARTIFACT_MUTATIONS: tuple[ArtifactMutation, ...] = (
    change_members,
    duplicate_member,
    link_member,
    inflate_member,
    change_directory,
    change_manifest,
    replace_manifest,
    change_program_manifest,
    flip_instruction_bits,
    move_instructions,
    change_constants,
    change_host_part,
    change_manifest,
    change_program_manifest,
    flip_instruction_bits,
    change_host_part,
)

CPU_ARTIFACT_MUTATIONS: tuple[ArtifactMutation, ...] = (
    change_members,
    duplicate_member,
    link_member,
    inflate_member,
    change_directory,
    change_manifest,
    replace_manifest,
    change_code,
    change_host_part,
    change_manifest,
    change_code,
    change_host_part,
)
"""Those of an artifact for processors alone."""
