"""float16 on processors without instructions for it: the conversions that the code brings along."""

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

from daedal.artifact.object_file import read_symbols
from daedal.compiler.cpu.build import build_host_code
from daedal.native.levels import levels_to_run
from daedal.runtime.host_code import HostProgram

LEVEL = "x86-64"
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

pytestmark = pytest.mark.skipif(LEVEL not in levels_to_run(), reason="needs a processor of x86-64")


def converted(values: npt.NDArray[np.generic], kind: int) -> npt.NDArray[np.generic]:
    """By code of the level, which needs nothing of a library."""
    given = helper.np_dtype_to_tensor_dtype(values.dtype)
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=kind)],
        "g",
        [helper.make_tensor_value_info("x", given, values.shape)],
        [helper.make_tensor_value_info("y", kind, values.shape)],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    code = build_host_code(model, levels=(LEVEL,))
    assert not any(read_symbols(data).undefined for data in code.objects[LEVEL])
    return HostProgram(code).run({"x": values})["y"]


def test_every_half_becomes_its_float() -> None:
    found, expected = converted(HALVES, TensorProto.FLOAT), HALVES.astype(np.float32)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_floats_become_the_nearest_half(rng: np.random.Generator) -> None:
    """Random ones, and those at and beside the ties between any two halves."""
    random = rng.integers(0, 1 << 32, 100_000, dtype=np.uint32)
    offsets = np.array([0, 1, 0xFFF, 0x1000, 0x1001], np.uint32)
    near = (HALVES.astype(np.float32).view(np.uint32)[:, np.newaxis] + offsets).ravel()
    values = np.concatenate([random, near]).view(np.float32)
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(converted(values, TensorProto.FLOAT16), expected)
