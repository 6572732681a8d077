"""Operations of GPUs as instructions of NVIDIA's."""

import json
import subprocess
from pathlib import Path

import pytest

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES, ptx_module, ptx_text
from daedal.compiler.codegen.gpu.nvptx_operations import OPERATIONS
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.native.python_child import python_command, python_environment
from tests.support.gpu_kernels import Kernel
from tests.support.gpu_operations import OPERATION_KERNELS

ROOT = Path(__file__).resolve().parents[4]

EXPECTED = {
    "copy 4": ("cp.async.ca.shared.global [", "], 4, 4;"),
    "copy 8": ("cp.async.ca.shared.global [", "], 8, 8;"),
    "copy 16": ("cp.async.cg.shared.global [", "], 16, 16;"),
    "shuffle": ("shfl.sync.bfly.b32", ", 4, 31, -1;"),
    "ldmatrix": ("ldmatrix.sync.aligned.m8n8.x4.shared.b16",),
    "ldmatrix trans": ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",),
    "ldmatrix of two": ("ldmatrix.sync.aligned.m8n8.x2.shared.b16",),
    "ldmatrix trans of two": ("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",),
    "f16": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",),
    "bf16": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",),
    "s8": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",),
}
"""Parts of the line of the instruction."""


@pytest.fixture(scope="module")
def texts() -> dict[str, dict[str, str]]:
    """PTX by architecture and kernel, from a process that LLVM may end."""
    done = subprocess.run(
        python_command("-m", "tests.support.gpu_operations"),
        env=python_environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", OPERATION_KERNELS)
def test_an_operation_is_one_instruction(
    name: str, architecture: str, texts: dict[str, dict[str, str]]
) -> None:
    text = texts[architecture][name]
    lines = [line for line in text.splitlines() if all(part in line for part in EXPECTED[name])]
    assert len(lines) == (2 if name.startswith("copy") else 1)
    assert "call" not in text and f".target {architecture}\n" in text


def test_copies_are_waited_for_in_order(texts: dict[str, dict[str, str]]) -> None:
    text = texts["sm_80"]["copy 16"]
    kinds = ("cp.async.cg", "commit_group", "wait_group", "bar.sync", "ld.shared")
    found = [kind for line in text.splitlines() for kind in kinds if kind in line]
    assert found == [*kinds[:2], *kinds[:2], *kinds[2:], *kinds[2:]]
    first, last = (line.split() for line in text.splitlines() if "wait_group" in line)
    assert (first[-1], last[-1]) == ("1;", "0;")


@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_assembler_takes_every_operation(
    architecture: str, texts: dict[str, dict[str, str]]
) -> None:
    for name, text in texts[architecture].items():
        cubin = assembled(text, architecture)
        assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ()), name
        assert cubin.registers <= 24, name


@pytest.mark.parametrize(("newest", "expected"), [(0, 0), (7, 7), (8, 0)])
def test_waiting_for_few_enough(newest: int, expected: int) -> None:
    """There is an instruction for each number; for a large one all copies are waited for."""
    kernel = Kernel(f"  call void @gpu.wait(ptr %gpu, i32 {newest})\n", 0)
    (line,) = (line for line in ptx_text(kernel.text(), "sm_80").splitlines() if "wait_g" in line)
    assert line.split()[-1] == f"{expected};"


def test_an_intrinsic_that_no_operation_uses_is_refused() -> None:
    """It might end the process."""
    body = "  call void @llvm.nvvm.no.such.thing()\n"
    text = Kernel(body, 0, more="declare void @llvm.nvvm.no.such.thing()\n").text()
    with pytest.raises(UnsupportedError, match=r"not 'llvm\.nvvm\.no\.such\.thing'; leave out"):
        ptx_module(text, "sm_80")


def test_every_operation_has_its_own_name() -> None:
    for name, body in OPERATIONS.items():
        assert body.count("define internal") == 1 and f" @{name}(ptr %gpu" in body
