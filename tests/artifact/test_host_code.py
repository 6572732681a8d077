"""`HostCode` in an artifact's file: what is written is read back, and nothing else is taken."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import onnx
import pytest

from daedal.artifact.artifact import Artifact, HostPart, Value
from daedal.artifact.code import (
    code_digest,
    code_digests,
    codes_from_json,
    codes_json,
    codes_member_names,
    codes_members,
)
from daedal.artifact.host_code import BUFFER_BYTES, LEVEL_MACHINES, HostCode
from daedal.common.errors import ArtifactError
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.tir.dtype import DTYPES, numpy_dtype
from daedal.isa.program import READ_FAILURES
from daedal.native.levels import LEVELS
from tests.robustness.artifact_mutations import _members, _sealed
from tests.support.host_models import SHAPE, small_floats, zeroed

CODE_LEVELS = ("x86-64", "aarch64")


@pytest.fixture(scope="module")
def code() -> HostCode:
    return build_host_code(onnx.ModelProto.FromString(small_floats()), levels=CODE_LEVELS)


@pytest.fixture(scope="module")
def artifact(code: HostCode) -> Artifact:
    parts = (HostPart(small_floats(), (), (code,)),)
    return Artifact(parts, (Value("x", SHAPE),), (Value("y", SHAPE),))


def test_tables_are_those_of_the_compiler() -> None:
    assert dict.fromkeys(LEVEL_MACHINES).keys() == LEVELS.keys()
    assert {name: numpy_dtype(name).itemsize for name in DTYPES} == BUFFER_BYTES


def test_code_is_read_back(artifact: Artifact) -> None:
    data = artifact.to_bytes()
    assert data == artifact.to_bytes()
    found = Artifact.from_bytes(data)
    assert found == artifact and found.to_bytes() == data
    assert [code.from_file for code in found.host_parts[0].codes] == [True]
    assert [code.from_file for code in artifact.host_parts[0].codes] == [False]
    assert set(_members(data)) == {
        "manifest.json",
        *(f"part0.{end}" for end in ("onnx", "values", "nodes", *CODE_LEVELS)),
    }


def test_everything_counts_for_the_digest(code: HostCode) -> None:
    first, second = CODE_LEVELS
    item, members = codes_json([code]), codes_members([code])
    (read,) = codes_from_json(item, members)
    assert code_digests(b"", [read]) == code_digests(b"", [code])
    changed = copy.deepcopy(item)
    changed["codes"][0]["buffers"][0][0] += 64
    (moved,) = codes_from_json(changed, members)
    digests = {
        code_digest(b"", code, first),
        code_digest(b"", code, second),
        code_digest(b"m", code, first),
        code_digest(b"", moved, first),
        code_digest(b"", zeroed(code), first),
        code_digest(b"", replace(code, steps=code.steps[:1]), first),
    }
    assert len(digests) == 6
    alone = replace(code, objects={first: code.objects[first]})
    assert code_digest(b"", alone, first) in digests


def set_at(*path: Any) -> Callable[[Any], None]:
    """A change of a document: the last of `path` is put where the others lead."""

    def change(document: Any) -> None:
        *way, last, value = path
        for key in way:
            document = document[key]
        document[last] = value

    return change


def packing(extents: list[int], blocks: list[int], order: list[int]) -> dict[str, list[int]]:
    """A packing as the manifest has it."""
    return {"extents": extents, "blocks": blocks, "order": order}


def products(matrix: Any, dtype: str = "float32") -> dict[str, Any]:
    """Products as the manifest has them."""
    return {"matrix": matrix, "dtype": dtype}


@pytest.mark.parametrize(
    "change",
    [
        set_at("memory_bytes", 64),
        set_at("memory_bytes", 1 << 50),
        set_at("memory_bytes", -1),
        set_at("buffers", 0, 0, 1),
        set_at("buffers", 0, 0, 1 << 40),
        set_at("buffers", 0, 0, -64),
        set_at("buffers", 0, 1, "float128"),
        set_at("buffers", 0, 1, "object"),
        set_at("buffers", 0, 2, [1 << 40, 1 << 40]),
        set_at("buffers", 0, 2, [-1]),
        set_at("buffers", 0, 2, [1] * 40),
        set_at("buffers", 0, []),
        set_at("buffers", {}),
        set_at("names", "x", 99),
        set_at("names", "x", True),
        set_at("names", "a\n", 0),
        set_at("inputs", ["x", "x"]),
        set_at("steps", 1, "symbol", "main"),
        set_at("steps", 1, "buffers", [0, 99]),
        set_at("steps", 1, "buffers", []),
        set_at("steps", 1, "buffers", [0, 1, 2]),
        set_at("steps", 1, "iterations", -1),
        set_at("steps", 1, "rounds", 0),
        set_at("steps", 1, "rounds", 1 << 20),
        set_at("steps", 1, "work", 0.5),
        set_at("steps", 1, "computes", "y"),
        set_at("steps", 1, "computes", [1]),
        set_at("steps", 1, "products", -1),
        set_at("steps", 0, "op", "a\n"),
        set_at("steps", 0, "node", 10),
        set_at("constants", 0, 0, 1),
        set_at("constants", 0, 0, 1 << 40),
        set_at("constants", 0, 1, 99),
        set_at("constants", 0, 2, [packing([3, 3], [0, 0], [])]),
        set_at("constants", 0, 2, [packing([3, 3], [0, 0], [0, 0])]),
        set_at("constants", 0, 2, [packing([3, 3], [4, 0], [0, 1, 2])]),
        set_at("constants", 0, 2, [packing([2, 3], [0, 0], [0, 1])]),
        set_at("constants", 0, 2, [packing([3], [0], [0])]),
        set_at("constants", 0, 2, [packing([1 << 40, 3], [0, 0], [0, 1])]),
        set_at("constants", 0, 2, [products([[1, 2]])]),
        set_at("constants", 0, 2, [products([[1, 2, 3], [1, 2]])]),
        set_at("constants", 0, 2, [products([[1, 2, 1e30]])]),
        set_at("constants", 0, 2, [products([[1, 2, True]])]),
        set_at("constants", 0, 2, [products([[1, 2, "3"]])]),
        set_at("constants", 0, 2, [products([[1, 2, 3]], "object")]),
        set_at("constants", 0, 2, [products([[1, 2, 3]] * 1000)]),
        set_at("constants", 0, 2, [{"dtype": "float64"}]),
        set_at("objects", "x86-64", [1]),
        set_at("objects", "x86-64", []),
        set_at("objects", "riscv64", []),
        set_at("objects", {"x86-64-v3": []}),
    ],
)
def test_wrong_numbers_are_refused(
    change: Callable[[Any], None], code: HostCode, artifact: Artifact
) -> None:
    item, members = copy.deepcopy(codes_json([code])), codes_members([code])
    change(item["codes"][0])
    with pytest.raises(READ_FAILURES):
        codes_member_names(item)
        codes_from_json(item, members)


def test_objects_of_another_processor_are_refused(code: HostCode) -> None:
    item, members = codes_json([code]), codes_members([code])
    objects = item["codes"][0]["objects"]
    objects["x86-64"] = objects["aarch64"]
    with pytest.raises(ValueError, match="for a processor of that level"):
        codes_from_json(item, {**members, "x86-64": members["aarch64"]})


def test_a_damaged_object_is_one_sentence(artifact: Artifact) -> None:
    members = _members(artifact.to_bytes())
    damaged = {**members, "part0.x86-64": bytes(len(members["part0.x86-64"]))}
    with pytest.raises(ArtifactError, match=r"^artifact must be a file that `daedal compile` wrot"):
        Artifact.from_bytes(_sealed(damaged))
    with pytest.raises(ArtifactError, match="must hold exactly the parts"):
        Artifact.from_bytes(_sealed({k: v for k, v in members.items() if k != "part0.nodes"}))


def test_an_artifact_without_programs_has_no_variant(artifact: Artifact) -> None:
    with pytest.raises(ArtifactError, match=r"for processors alone; compile .* --target VARIANT$"):
        _ = artifact.variant
    with pytest.raises(ArtifactError, match="at least one part"):
        Artifact((), (), ())
