"""Operations on tile registers: emulated, against numpy; and as instructions of AMX."""

import ctypes
import re

import numpy as np
import pytest

from daedal.native.bodies.tile_products import TILE_FEATURES
from daedal.native.codegen import assembly_text, compile_text, load_object
from daedal.native.cpu import host_cpu
from daedal.native.levels import AMX_LEVEL, level_cpu

WITHOUT = host_cpu().without(TILE_FEATURES)
"""This processor, where tile registers are emulated."""


def product_text(rows: int, columns: int, terms: int, steps: tuple[int, int, int]) -> str:
    """``product(a, b, c)``: one product of `rows` by `columns`, between rows so many bytes."""
    shapes = {
        "c": f"{rows}x{4 * columns}",
        "a": f"{rows}x{4 * terms}",
        "b": f"{terms}x{4 * columns}",
    }
    numbers = {"c": 3, "a": 0, "b": 7}
    names = {item: f"t{number}.{shapes[item]}" for item, number in numbers.items()}
    by_number = {number: shapes[item] for item, number in numbers.items()}
    begin = ".".join(by_number.get(number, "0x0") for number in range(8))
    calls = [
        f"begin.{begin}(ptr %t)",
        "zero.t3(ptr %t)",
        f"load.{names['a']}(ptr %t, ptr %a, i64 {steps[0]})",
        f"load.{names['b']}(ptr %t, ptr %b, i64 {steps[1]})",
        f"multiply.t3.t0.t7.{rows}x{columns}x{terms}(ptr %t)",
        f"multiply.t3.t0.t7.{rows}x{columns}x{terms}(ptr %t)",
        f"store.{names['c']}(ptr %t, ptr %c, i64 {steps[2]})",
        "end(ptr %t)",
    ]
    kinds = [re.sub(r" %\w+| \d+", "", call) for call in calls]
    declared = "".join(f"declare void @tile_{kind}\n" for kind in dict.fromkeys(kinds))
    body = "".join(f"  call void @tile_{call}\n" for call in calls)
    return (
        f"{declared}\ndefine void @product(ptr %a, ptr %b, ptr %c) {{\n"
        f"  %t = alloca [8 x [1024 x i8]], align 64\n{body}  ret void\n}}\n"
    )


@pytest.mark.parametrize(
    ("rows", "columns", "terms"), [(16, 16, 16), (1, 1, 1), (13, 5, 7), (3, 16, 2), (16, 1, 11)]
)
def test_emulated_products_are_numpys(rows: int, columns: int, terms: int) -> None:
    """Of the largest numbers, too; what lies between rows stays as it is."""
    rng = np.random.default_rng(rows)
    a = rng.integers(0, 256, (rows, 4 * terms + 9), dtype=np.uint8)
    b = rng.integers(-128, 128, (terms, 4 * columns + 3), dtype=np.int8)
    a[0], b[:, :4] = 255, -128
    c = np.full((rows, columns + 2), 77, np.int32)
    steps = a.strides[0], b.strides[0], c.strides[0]
    code = load_object(compile_text(product_text(rows, columns, terms, steps), WITHOUT), "product")
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address)
    function(*(item.ctypes.data for item in (a, b, c)))
    quads = b[:, : 4 * columns].reshape(terms, columns, 4).transpose(0, 2, 1)
    factors = quads.reshape(4 * terms, columns).astype(np.int32)
    product = a[:, : 4 * terms].astype(np.int32) @ factors
    np.testing.assert_array_equal(c[:, :columns], 2 * product)
    assert (c[:, columns:] == 77).all()


def test_each_operation_is_one_instruction() -> None:
    """Registers have their shapes in the operand of LDTILECFG: bytes of rows from byte 16 on, rows
    from byte 48 on."""
    assembly = assembly_text(product_text(13, 5, 7, (64, 128, 32)), level_cpu(AMX_LEVEL))
    found = re.findall(r"\t(ldtilecfg|t(?:ile|dp)\w+)\t?([^\n]*)\n", assembly)
    names = [name for name, _ in found if name != "tile_shapes"]
    assert names[:4] == ["ldtilecfg", "tilezero", "tileloadd", "tileloadd"]
    assert names[4:] == ["tdpbusd", "tdpbusd", "tilestored", "tilerelease"]
    assert ("tdpbusd", "%tmm7, %tmm0, %tmm3") in found
    text = re.search(r'\.asciz?\t"(.*)"', assembly)
    assert text is not None
    data = bytearray()
    for octal, letter in re.findall(r"\\([0-7]{3}|.)|(.)", text[1])[:64]:
        known = {"b": 8, "t": 9, "n": 10, "f": 12, "r": 13}
        data.append(ord(letter) if letter else known.get(octal) or int(octal, 8))
    assert data[0] == 1 and data[1:16] == bytes(15)
    assert [data[16 + 2 * number] for number in (0, 3, 7)] == [28, 20, 20]
    assert [data[48 + number] for number in (0, 3, 7)] == [13, 13, 7]
    assert sum(data) == 1 + 28 + 20 + 20 + 13 + 13 + 7


@pytest.mark.parametrize("shape", [(17, 16, 16), (16, 17, 1), (1, 1, 17)])
def test_products_that_are_too_large_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(AssertionError):
        compile_text(product_text(*shape, (64, 64, 64)), WITHOUT)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("load.t0.13x28", "load.t0.13x24"),  # another shape
        ("load.t0.13x28", "load.t1.13x28"),  # a register without one
        ("multiply.t3.t0.t7.13x5x7", "multiply.t3.t7.t0.13x5x7"),  # operands the other way round
        ("multiply.t3.t0.t7.13x5x7", "multiply.t3.t0.t0.13x5x7"),
        ("multiply.t3.t0.t7.13x5x7", "multiply.t3.t0.t7.13x5x6"),
        ("zero.t3", "zero.t2"),
        ("begin.13x28", "begin.13x27"),
    ],
)
def test_what_the_instructions_fault_on_is_refused(before: str, after: str) -> None:
    text = product_text(13, 5, 7, (64, 128, 32))
    compile_text(text, level_cpu(AMX_LEVEL))
    assert before in text
    with pytest.raises(AssertionError):
        compile_text(text.replace(before, after), level_cpu(AMX_LEVEL))
