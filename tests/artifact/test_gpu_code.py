"""`GpuCode` in an artifact's file: what is written is read back, and nothing else is taken."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from daedal.artifact.artifact import Artifact, HostPart, Value
from daedal.artifact.gpu_code import GpuCode, GpuKernel, ProcessorKernel, TensorMap
from daedal.artifact.gpu_code_file import (
    _kernel,
    gpu_digest,
    gpu_from_json,
    gpu_json,
    gpu_member_names,
    gpu_members,
)
from daedal.common.errors import ArtifactError
from daedal.compiler.cpu.build import build_host_code
from daedal.isa.program import READ_FAILURES
from tests.robustness.artifact_mutations import (
    _members,
    _sealed,
    change_code,
    change_manifest,
)
from tests.support.gpu_code import as_gpu_code, ptx_of
from tests.support.host_models import SHAPE, small_floats, zeroed
from tests.support.spirv import spirv_of

LEVELS = ("x86-64", "aarch64")
EMULATED = "emulated-x86-64"


@pytest.fixture(scope="module")
def code() -> GpuCode:
    model = onnx.ModelProto.FromString(small_floats())
    return as_gpu_code(build_host_code(model, levels=LEVELS))


@pytest.fixture(scope="module")
def artifact(code: GpuCode) -> Artifact:
    parts = (HostPart(small_floats(), (), (), code),)
    return Artifact(parts, (Value("x", SHAPE),), (Value("y", SHAPE),))


def test_code_is_read_back(artifact: Artifact) -> None:
    data = artifact.to_bytes()
    found = Artifact.from_bytes(data)
    assert found == artifact and found.to_bytes() == data
    before, after = artifact.host_parts[0].gpu, found.host_parts[0].gpu
    assert before is not None and not before.from_file
    assert after is not None and after.from_file
    ends = ("values", "nodes", "emulated-aarch64", EMULATED, "sm_80")
    assert list(_members(data)) == [
        "manifest.json",
        "part0.onnx",
        *(f"part0.gpu.{x}" for x in ends),
    ]


def test_a_part_can_have_code_for_both(code: GpuCode) -> None:
    host = build_host_code(onnx.ModelProto.FromString(small_floats()), levels=LEVELS)
    part = HostPart(small_floats(), (), (host,), code)
    artifact = Artifact((part,), (Value("x", SHAPE),), (Value("y", SHAPE),))
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact


def test_everything_counts_for_the_digest(code: GpuCode) -> None:
    kernel = code.kernels[0]
    wider = (replace(kernel, block=(64, 1, 1)), *code.kernels[1:])
    zeros = zeroed(code.host)
    digests = [
        gpu_digest(b"", code, EMULATED),
        gpu_digest(b"", code, "sm_80"),
        gpu_digest(b"m", code, EMULATED),
        gpu_digest(b"", replace(code, kernels=wider), EMULATED),
        gpu_digest(b"", replace(code, images={EMULATED: code.images["sm_80"]}), EMULATED),
        gpu_digest(b"", replace(code, precision="float16"), EMULATED),
        gpu_digest(b"", replace(code, host=zeros), EMULATED),
        gpu_digest(b"", replace(code, host=replace(code.host, steps=())), EMULATED),
        # The same bytes for another architecture.
        gpu_digest(b"", replace(code, images={"sm_90": code.images["sm_80"]}), "sm_90"),
    ]
    assert len(set(digests)) == len(digests)
    read = gpu_from_json(gpu_json(code), gpu_members(code))
    alone = replace(code, images={EMULATED: code.images[EMULATED]})
    assert gpu_digest(b"", read, EMULATED) == gpu_digest(b"", alone, EMULATED) == digests[0]


def set_at(*path: Any) -> Callable[[Any], None]:
    """A change of a document: the last of `path` is put where the others lead."""

    def change(document: Any) -> None:
        *way, last, value = path
        for key in way:
            document = document[key]
        document[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_at("host", "codes", 0, "memory_bytes", 64),
        set_at("host", "codes", 0, "buffers", 0, 0, 1),
        set_at("host", "codes", 0, "steps", 1, "symbol", "k0123456789abcdef"),
        set_at("host", "codes", 0, "objects", {"x86-64": []}),
        set_at("host", "codes", 0, "objects", {"x86-64": [1]}),
        set_at("on_processor", None),
        set_at("on_processor", [["k0123456789abcdef", ["y"], "why"]]),
        set_at("precision", "float8"),
        set_at("kernels", {}),
        set_at("kernels", []),
        set_at("kernels", 0, []),
        set_at("kernels", 0, "symbol", "main"),
        set_at("kernels", 0, "symbol", "k0123456789abcdef"),
        set_at("kernels", 0, "grid", [1, 1]),
        set_at("kernels", 0, "grid", [0, 1, 1]),
        set_at("kernels", 0, "grid", [1 << 31, 1, 1]),
        set_at("kernels", 0, "grid", [1, 1 << 16, 1]),
        set_at("kernels", 0, "grid", [1, 1, 1 << 16]),
        set_at("kernels", 0, "block", [True, 1, 1]),
        set_at("kernels", 0, "block", [1, 1, 65]),
        set_at("kernels", 0, "block", [1025, 1, 1]),
        set_at("kernels", 0, "block", [32, 32, 2]),
        set_at("kernels", 0, "shared_bytes", -1),
        set_at("kernels", 0, "shared_bytes", 227 * 1024 + 1),
        set_at("kernels", 0, "shared_bytes", 0.5),
        set_at("kernels", 0, "local_bytes", -1),
        set_at("kernels", 0, "cores", "float8"),
        set_at("images", []),
        set_at("images", "sm_80", [1]),
        set_at("images", "sm_80", []),
        set_at("images", "sm_80", [-1]),
        set_at("images", "emulated-x86-64", []),
        set_at("images", "emulated-riscv64", []),
        set_at("images", "sm_1000", []),
        set_at("images", "sm_90a\n", []),
        set_at("images", "gfx942", []),
        set_at("images", "emulated-x86-64.cubin", []),
        set_at("images", "sm_80.cubin.cubin", []),
        set_at("images", "spirv", []),
        set_at("images", "spirv64", []),
    ],
)
def test_wrong_entries_are_refused(change: Callable[[Any], None], code: GpuCode) -> None:
    item, members = copy.deepcopy(gpu_json(code)), gpu_members(code)
    change(item)
    with pytest.raises(READ_FAILURES):
        gpu_member_names(item)
        gpu_from_json(item, members)


def test_two_kernels_of_one_name_are_refused(code: GpuCode) -> None:
    item = copy.deepcopy(gpu_json(code))
    item["kernels"] += item["kernels"][:1]
    with pytest.raises(ValueError, match="different names"):
        gpu_from_json(item, gpu_members(code))


@pytest.fixture(scope="module")
def mixed(code: GpuCode) -> GpuCode:
    """The processor runs one of the kernels."""
    host = build_host_code(onnx.ModelProto.FromString(small_floats()), levels=LEVELS)
    first, *others = code.kernels
    left = (ProcessorKernel(first.symbol, "it has no code"),)
    own = replace(code.host, objects=host.objects)
    return GpuCode(own, tuple(others), code.images, left)


KERNEL = {
    "grid": [1] * 3,
    "block": [1] * 3,
    "shared_bytes": 0,
    "local_bytes": 0,
    "cores": "",
    "maps": [],
}
MAP = TensorMap(0, "float16", (4, 64), (2, 64))


def test_maps_are_read_back(code: GpuCode) -> None:
    """And count for the digest."""
    given = replace(code, kernels=(replace(code.kernels[0], maps=(MAP, MAP)), *code.kernels[1:]))
    entries = gpu_json(given)["kernels"]
    assert entries[0]["maps"] == [[0, "float16", [4, 64], [2, 64]]] * 2
    assert gpu_digest(b"", given, "sm_80") != gpu_digest(b"", code, "sm_80")
    found = [_kernel(entry) for entry in entries]
    assert found == list(given.kernels)


@pytest.mark.parametrize(
    "item",
    [
        replace(MAP, argument=-1),
        replace(MAP, argument=1000),
        replace(MAP, dtype="float32"),
        replace(MAP, shape=(4, 64, 1)),
        replace(MAP, shape=(0, 64)),
        replace(MAP, box=(257, 64)),
        replace(MAP, shape=(1,) * 6, box=(1,) * 6),
        replace(MAP, shape=(1 << 20, 64)),
    ],
)
def test_wrong_maps_are_refused(item: TensorMap, code: GpuCode) -> None:
    """The last one is larger than what the call gives."""
    symbol = code.host.calls[0].symbol
    kernels = tuple(
        replace(kernel, maps=(item,)) if kernel.symbol == symbol else kernel
        for kernel in code.kernels
    )
    given = replace(code, kernels=kernels)
    with pytest.raises(READ_FAILURES):
        gpu_from_json(gpu_json(given), gpu_members(given))


def test_a_kernel_without_local_arrays_has_none_in_the_file(code: GpuCode) -> None:
    plain = GpuKernel("k0123456789abcdef", (1, 1, 1), (1, 1, 1), 0)
    alone = replace(code, kernels=(plain,))
    assert repr(alone).startswith("<GpuCode of 1 kernels")
    (entry,) = gpu_json(alone)["kernels"]
    assert entry == {**KERNEL, "symbol": plain.symbol}


def test_functions_of_the_processor_are_read_back(mixed: GpuCode) -> None:
    item, members = gpu_json(mixed), gpu_members(mixed)
    assert gpu_from_json(item, members) == mixed
    assert list(members) == gpu_member_names(item)
    assert {f"gpu.{level}" for level in LEVELS} <= set(members)


@pytest.mark.parametrize(
    "change",
    [
        set_at("on_processor", []),
        set_at("on_processor", 0, 0, "main"),
        set_at("on_processor", 0, 0, "k0123456789abcdef"),
        set_at("on_processor", 0, 1, None),
        set_at("on_processor", 0, ["k0123456789abcdef"]),
        set_at("on_processor", 0, []),
        set_at("host", "codes", 0, "objects", {}),
        lambda item: item["on_processor"].extend(item["on_processor"]),
        lambda item: item["kernels"].append({**KERNEL, "symbol": item["on_processor"][0][0]}),
    ],
)
def test_wrong_functions_of_the_processor_are_refused(
    change: Callable[[Any], None], mixed: GpuCode
) -> None:
    item, members = copy.deepcopy(gpu_json(mixed)), gpu_members(mixed)
    change(item)
    with pytest.raises(READ_FAILURES):
        gpu_from_json(item, members)


def test_images_of_another_processor_are_refused(code: GpuCode) -> None:
    item, members = copy.deepcopy(gpu_json(code)), gpu_members(code)
    item["images"][EMULATED] = item["images"]["emulated-aarch64"]
    with pytest.raises(ValueError, match="for a processor of that level"):
        gpu_from_json(item, {**members, f"gpu.{EMULATED}": members["gpu.emulated-aarch64"]})


CUBIN = b"\x7fELF\x02\x01" + bytes(12) + b"\xbe\x00" + bytes(44)


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (ptx_of(), "every architecture must have every kernel"),
        (ptx_of("k0123456789abcdef"), "every architecture must have every kernel"),
        (CUBIN, "every architecture must have every kernel"),
        (b"\0", "must be a cubin, or PTX"),
        ("ä".encode(), "must be a cubin, or PTX"),
    ],
)
def test_images_without_the_kernels_are_refused(code: GpuCode, image: bytes, problem: str) -> None:
    damaged = replace(code, images={"sm_80": (image,)})
    with pytest.raises(ValueError, match=problem):
        gpu_from_json(gpu_json(damaged), gpu_members(damaged))


def test_a_cubin_is_taken(code: GpuCode) -> None:
    names = b"\0".join(kernel.symbol.encode() for kernel in code.kernels)
    cubin = replace(code, images={"sm_90a": (CUBIN + names,)})
    assert gpu_from_json(gpu_json(cubin), gpu_members(cubin)) == cubin


def test_cubins_beside_ptx(code: GpuCode) -> None:
    names = b"\0".join(kernel.symbol.encode() for kernel in code.kernels)
    both = replace(code, images={**code.images, "sm_80.cubin": (CUBIN + names,)})
    item, members = gpu_json(both), gpu_members(both)
    assert gpu_from_json(item, members) == both
    assert "gpu.sm_80.cubin" in gpu_member_names(item)
    assert gpu_digest(b"", both, "sm_80") == gpu_digest(b"", code, "sm_80")
    assert gpu_digest(b"", both, "sm_80.cubin") != gpu_digest(b"", both, "sm_80")


def test_a_spirv_module_is_taken(code: GpuCode) -> None:
    module = spirv_of(*(kernel.symbol for kernel in code.kernels))
    spirv = replace(code, images={"spirv": (module,)})
    assert gpu_from_json(gpu_json(spirv), gpu_members(spirv)) == spirv


@pytest.mark.parametrize(
    ("architecture", "image", "problem"),
    [
        ("spirv", spirv_of("k0123456789abcdef"), "every architecture must have every kernel"),
        ("spirv", ptx_of("k0123456789abcdef"), "a SPIR-V module must be"),
        ("spirv", b"", "a SPIR-V module must be"),
        ("sm_80", spirv_of("k0123456789abcdef"), "must be a cubin, or PTX"),
        ("sm_80.cubin", ptx_of("k0123456789abcdef"), "must be a cubin$"),
        ("sm_80.cubin", CUBIN, "every architecture must have every kernel"),
    ],
)
def test_images_of_another_kind_are_refused(
    code: GpuCode, architecture: str, image: bytes, problem: str
) -> None:
    damaged = replace(code, images={architecture: (image,)})
    with pytest.raises(ValueError, match=problem):
        gpu_from_json(gpu_json(damaged), gpu_members(damaged))


def test_damage_is_one_sentence(artifact: Artifact) -> None:
    members = _members(artifact.to_bytes())
    name = f"part0.gpu.{EMULATED}"
    damaged = {**members, name: bytes(len(members[name]))}
    with pytest.raises(ArtifactError, match=r"^artifact must be a file that `daedal compile` wrot"):
        Artifact.from_bytes(_sealed(damaged))
    with pytest.raises(ArtifactError, match="must hold exactly the parts"):
        Artifact.from_bytes(_sealed({k: v for k, v in members.items() if k != name}))


@pytest.mark.parametrize("change", [change_manifest, change_code])
def test_any_damage_is_one_sentence_or_harmless(
    artifact: Artifact, change: Callable[[np.random.Generator, bytes], bytes]
) -> None:
    data, refused = artifact.to_bytes(), 0
    for seed in range(60):
        try:
            Artifact.from_bytes(change(np.random.default_rng(seed), data))
        except ArtifactError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 20
