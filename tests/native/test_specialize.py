"""Kernels with other constants, and their LLVM and assembler texts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from daedal.common.errors import KernelError
from daedal.native.codegen import assembly_text, compile_text, load_object
from daedal.native.cpu import Cpu, host_cpu
from daedal.native.intrinsic import intrinsic
from daedal.native.kernel import kernel
from daedal.native.types import Array, i64

STEP = 2


class Sizes:
    """Constants that only a specialized kernel has."""

    rows: int


def _add_step_text(names: Mapping[str, Any]) -> str:
    return f"""
define internal i64 @SELF(i64 %x) alwaysinline {{
  %y = add i64 %x, {names["STEP"]}
  ret i64 %y
}}
"""


@intrinsic(_add_step_text)
def add_step(x: i64) -> i64:
    """The step as a constant of LLVM's text."""
    return x + STEP


@kernel
def climb(x: i64, times: i64) -> i64:
    """Recursive, so that a specialized kernel must call itself and not the original."""
    return x if times == 0 else climb(add_step(x), times - 1) + STEP


@kernel
def count(a: Array[i64]) -> i64:
    """Uses a constant that is not there yet, through another kernel."""
    return len(a) * rows()


@kernel
def rows() -> i64:
    """See `Sizes`."""
    return Sizes.rows


def test_names_mean_the_same_in_everything_that_is_called() -> None:
    by_ten = climb.specialized({"STEP": 10})
    for form in ("__call__", "checked", "plain"):
        assert getattr(climb, form)(1, 3) == 13
        assert getattr(by_ten, form)(1, 3) == 61


def test_a_constant_may_come_with_specializing() -> None:
    with pytest.raises(KernelError, match=r"module-level names, not 'Sizes\.rows'"):
        count(np.zeros(3, dtype=np.int64))
    made = count.specialized({"Sizes": type("Sizes", (Sizes,), {"rows": 7})})
    assert made(np.zeros(3, dtype=np.int64)) == 21


def test_texts() -> None:
    assert "define void @daedal_entry" in climb.llvm()
    assert "ptr noalias %status" in climb.llvm(checked=True)
    assert "daedal_entry:" in climb.assembly()


def test_text_that_is_not_llvms_is_refused() -> None:
    with pytest.raises(RuntimeError, match="expected type"):
        compile_text("define nonsense")


def test_a_symbol_that_is_not_there_is_refused() -> None:
    with pytest.raises(RuntimeError, match="nowhere"):
        load_object(compile_text("define i64 @here() {\n  ret i64 1\n}"), "nowhere")


def test_code_for_a_plainer_processor() -> None:
    host = host_cpu()
    if not host.triple.startswith("x86_64"):
        pytest.skip("compares two kinds of x86-64 processors")
    text = (
        "define void @f(ptr %a) {\n  %x = load <16 x i32>, ptr %a\n  %y = add <16 x i32> %x, %x\n"
        "  store <16 x i32> %y, ptr %a\n  ret void\n}"
    )
    plain = Cpu(host.triple, "x86-64", frozenset({"sse2"}))
    wide = Cpu(host.triple, "x86-64-v4", frozenset({"avx512f"}))
    assert "xmm" in assembly_text(text, plain) and "zmm" not in assembly_text(text, plain)
    assert "zmm" in assembly_text(text, wide)
    hidden = Cpu(host.triple, "x86-64-v4", frozenset(), frozenset({"avx512f"}))
    assert "zmm" not in assembly_text(text, hidden)
    assert "zmm" not in assembly_text(text, wide.without(["avx512f"]))
    assert host.features and not host.features & host.lacking
