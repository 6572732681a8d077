"""Object code for other processors has their form."""

import struct
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.qdq_model import QdqModel
from daedal.compiler.cpu.build import build_host_code, build_host_codes
from daedal.native.codegen import load_objects
from daedal.native.cpu import host_cpu
from daedal.native.levels import (
    AMX_LEVEL,
    LEVELS,
    VNNI_LEVEL,
    host_level,
    level_cpu,
    level_to_run,
    levels_to_run,
)
from daedal.runtime.host_code import HostProgram

MACHINES = {level: 0xB7 if level.startswith("aarch64") else 0x3E for level in LEVELS}
"""``e_machine``. Source: System V ABI, ELF header; ELF for the Arm 64-bit Architecture."""


def product_model() -> onnx.ModelProto:
    """A matrix product with a constant."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [60, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [60, 96])],
        [numpy_helper.from_array(np.ones((40, 96), np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def quantized_model() -> onnx.ModelProto:
    """A convolution of 8-bit integers."""
    maker, rng = QdqModel(opset=21), np.random.default_rng(1)
    x = maker.requantized(maker.input("x", (1, 16, 8, 8)), 0.05, 3)
    weights = maker.weights(rng.integers(-128, 128, (16, 16, 3, 3)).astype(np.int8), 0.01)
    maker.quantize(maker.op("Conv", x, weights), 0.07, 5, output="y")
    return maker.model("y", dtype="int8")


@pytest.mark.parametrize("level", LEVELS)
def test_objects_are_relocatable_files_for_their_machine(level: str) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("Tanh", ["m"], ["t"]),
            helper.make_node("Softmax", ["t"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 48])],
        [numpy_helper.from_array(np.ones((40, 48), np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    code = build_host_code(model, levels=(level,))
    assert not code.interpreted
    for data in code.objects[level]:
        magic, bits, kind, machine = struct.unpack_from("<4sB11xHH", data)
        assert (magic, bits, kind, machine) == (b"\x7fELF", 2, 1, MACHINES[level])
    symbols = {call.symbol for call in code.calls}
    assert all(any(name.encode() in data for data in code.objects[level]) for name in symbols)


def test_the_best_level_that_is_there_runs() -> None:
    best = host_level()
    assert level_to_run(LEVELS) == best
    assert level_to_run(["x86-64"]) in ("x86-64", None)
    assert level_to_run([]) is None


@pytest.mark.parametrize(
    ("levels", "dtype"),
    [
        (("x86-64-v4-vnni",), "uint8"),
        (("x86-64-v3-vnni", "x86-64-v4-vnni"), "uint8"),
        (("x86-64", "x86-64-v4-vnni"), "int16"),
        (("aarch64",), "int16"),
        (("aarch64-dotprod",), "uint8"),
    ],
)
def test_8_bit_integers_lie_as_all_levels_multiply_them(
    levels: tuple[str, ...], dtype: str
) -> None:
    """Maps as uint8 for products of four, as int16 for those of two."""
    code = build_host_code(quantized_model(), levels=levels)
    assert {buffer.dtype for buffer in code.buffers} & {"uint8", "int16"} == {dtype}


def test_every_level_has_code_for_its_registers() -> None:
    """Of one model for three levels: the widest has vectors of 512 bits and layouts of its own."""
    levels = ("x86-64", "x86-64-v3", "x86-64-v4")
    narrow, wide = build_host_codes(product_model(), levels)
    assert [list(code.objects) for code in (narrow, wide)] == [["x86-64", "x86-64-v3"], [levels[2]]]
    (one,), (other,) = narrow.constants, wide.constants
    assert one.changes != other.changes and one.values is other.values
    # EVEX, the encoding of AVX-512's instructions, begins with this byte.
    objects = {**narrow.objects, **wide.objects}
    counts = {level: b"".join(objects[level]).count(b"\x62") for level in levels}
    assert counts["x86-64-v4"] > 4 * max(counts["x86-64"], counts["x86-64-v3"], 1)
    for code in (narrow, wide):
        (alone,) = build_host_codes(product_model(), tuple(code.objects))
        assert alone == code


def test_vnni_matters_for_products_of_integers_alone() -> None:
    levels = ("x86-64-v3", "x86-64-v4", "x86-64-v4-vnni")
    floats = build_host_codes(product_model(), levels)
    assert [list(code.objects) for code in floats] == [["x86-64-v3"], ["x86-64-v4"]]
    integers = build_host_codes(quantized_model(), levels)
    assert [list(code.objects) for code in integers] == [[level] for level in levels]
    alone = build_host_codes(product_model(), ["x86-64-v4-vnni"])
    assert [list(code.objects) for code in alone] == [["x86-64-v4-vnni"]]


def test_code_with_tile_registers_links() -> None:
    """Shapes of registers are data of an object file; nothing else is outside the functions."""
    (code,) = build_host_codes(quantized_model(), [AMX_LEVEL])
    files = code.objects[AMX_LEVEL]
    assert any(b"tile_shapes" in data for data in files)
    symbols = sorted({call.symbol for call in code.calls})
    if level_cpu(AMX_LEVEL).triple.split("-")[0] == host_cpu().triple.split("-")[0]:
        assert load_objects(files, symbols).addresses.keys() == set(symbols)


def test_a_level_without_products_of_matrices_is_that_with_vnni() -> None:
    """A sum of 16 channels is too short, and so is the code for AMX left out."""
    maker, rng = QdqModel(opset=21), np.random.default_rng(1)
    x = maker.requantized(maker.input("x", (1, 16, 8, 8)), 0.05, 3)
    weights = maker.weights(rng.integers(-128, 128, (16, 16, 1, 1)).astype(np.int8), 0.01)
    maker.quantize(maker.op("Conv", x, weights), 0.07, 5, output="y")
    model = maker.model("y", dtype="int8")
    codes = build_host_codes(model, [VNNI_LEVEL, AMX_LEVEL])
    assert [list(code.objects) for code in codes] == [[VNNI_LEVEL]]
    (alone,) = build_host_codes(model, [AMX_LEVEL])
    assert list(alone.objects) == [AMX_LEVEL]
    assert alone.objects[AMX_LEVEL] == codes[0].objects[VNNI_LEVEL]


def test_levels_have_the_same_integers_of_weights_that_are_stored_once() -> None:
    """Of all levels that this processor has; plain weights are the values of all."""
    codes = build_host_codes(quantized_model(), LEVELS)
    changed = [item for code in codes for item in code.constants if item.changes]
    assert len(codes) == 5 and len({item.values.digest for item in changed}) == 1
    # Pairs, quads, and floats with AVX-512 alone.
    assert len({item.changes for item in changed}) == 3
    assert [item.dtype for item in changed].count("float32") == 1
    x = np.random.default_rng(2).normal(size=(1, 16, 8, 8)).astype(np.float32)
    found = [
        HostProgram(replace(code, objects={level: code.objects[level]})).run({"x": x})["y"]
        for code in codes
        for level in code.objects
        if level in levels_to_run()
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
