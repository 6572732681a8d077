"""Modules of back ends that need a process of their own."""

from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.native.child_codegen import compile_in_child
from tests.support.hostile_folder import HostileFolder

TRIPLE = "spirv64v1.2-unknown-unknown"


def doubled(line: str = "%y = add i32 %x, %x") -> str:
    """A kernel that stores ``%y``, which is made of ``%x``."""
    return (
        "declare i32 @llvm.bitreverse.i32(i32)\n"
        "define spir_kernel void @k(ptr addrspace(1) %p) {\n"
        f"  %x = load i32, ptr addrspace(1) %p\n  {line}\n"
        "  store i32 %y, ptr addrspace(1) %p\n  ret void\n}\n"
    )


def test_a_module_does_not_depend_on_others() -> None:
    """In one process, the back end writes it differently after others, or ends."""
    first = compile_in_child(doubled(), TRIPLE)
    compile_in_child(doubled("%y = mul i32 %x, 5"), TRIPLE)
    assert compile_in_child(doubled(), TRIPLE) == first
    assert first.startswith(b"\x03\x02\x23\x07")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("nonsense", "status 1: ", id="no text of LLVM's"),
        pytest.param(
            doubled("%y = call i32 @llvm.bitreverse.i32(i32 %x)"),
            "LLVM ERROR: Unable to meet",
            id="not selected",
        ),
        pytest.param(
            doubled("%a = trunc i32 %x to i4\n  %b = srem i4 %a, 3\n  %y = zext i4 %b to i32"),
            "ValueError: integers must have one of the widths of memory, not 4$",
            id="four bits",
        ),
    ],
)
def test_what_has_no_code_is_one_sentence(text: str, problem: str) -> None:
    """And it does not end this process."""
    with pytest.raises(ToolError, match=problem) as error:
        compile_in_child(text, TRIPLE)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"LLVM must translate a module for {TRIPLE}, but ended with")


def test_the_child_imports_nothing_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = HostileFolder(tmp_path / "download")
    monkeypatch.chdir(hostile.folder)
    assert compile_in_child(doubled(), TRIPLE)
    assert hostile.imported == []
