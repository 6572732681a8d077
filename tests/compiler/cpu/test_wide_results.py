"""Dense layers with results of 16 bits, as residual streams of transformers have, in integers."""

import numpy as np
import onnx
import pytest

from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.gpu.build import build_gpu_code
from daedal.native.levels import LEVELS, levels_to_run
from daedal.runtime.gpu_program import GpuProgram
from daedal.runtime.host_code import HostProgram
from daedal.sim.gpu.emulator import EmulatedGpu

MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
wide (int8[%(rows)s,%(depth)d] x) => (int16[%(rows)s,%(columns)d] y, float[%(rows)s,%(columns)d] r)
<float sx = {0.05}, int8 zx = {%(zero)d}, int8 zw = {0}, float sy = {%(scale)r}, int16 zy = {0},
 float sw = {0.0039}>
{
    dx = DequantizeLinear (x, sx, zx)
    dw = DequantizeLinear (w, sw, zw)
    t = MatMul (dx, dw)
    y = QuantizeLinear (t, sy, zy)
    d = DequantizeLinear (y, sy, zy)
    r = Relu (d)
}
"""


def layer(
    rows: tuple[int, ...], depth: int, columns: int, zero: int, scale: float
) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """A model, an input, and the quotients that it should round."""
    rng = np.random.default_rng(depth)
    weights = rng.integers(-128, 128, (depth, columns)).astype(np.int8)
    text = MODEL % {
        "rows": ",".join(map(str, rows)),
        "depth": depth,
        "columns": columns,
        "zero": zero,
        "scale": scale,
    }
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    x = rng.integers(-128, 128, (*rows, depth)).astype(np.int8)
    sums = (x.astype(np.int64) - zero) @ weights.astype(np.int64)
    factor = np.float64(np.float32(0.05)) * np.float32(0.0039) / np.float32(scale)
    return model, x, sums * factor


@pytest.mark.parametrize("level", [level for level in LEVELS if level in levels_to_run()])
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "zero", "scale"),
    [((1, 7), 64, 48, 0, 2e-4), ((5,), 33, 10, -7, 1e-3), ((1, 1), 128, 512, 3, 1e-5)],
    ids=["rows", "odd", "saturated"],
)
def test_they_are_rounded_sums_of_integers(
    rows: tuple[int, ...], depth: int, columns: int, zero: int, scale: float, level: str
) -> None:
    model, x, wanted = layer(rows, depth, columns, zero, scale)
    code = build_host_code(model, levels=[level])
    assert {item.values.dtype for item in code.constants if len(item.values.shape) == 2} == {"int8"}
    found = HostProgram(code, 1).run({"x": x})
    limits = np.iinfo(np.int16)
    rounded = np.rint(wanted).clip(limits.min, limits.max)
    # Next to a tie the multiplier of 30 bits may round to the other side.
    is_clear = np.abs(wanted - np.floor(wanted) - 0.5) > 1e-3
    assert is_clear.mean() > 0.9
    np.testing.assert_array_equal(found["y"][is_clear], rounded[is_clear])
    assert np.abs(found["y"] - rounded).max() <= 1
    reals = np.maximum(found["y"].astype(np.float32) * np.float32(scale), 0)
    np.testing.assert_array_equal(found["r"], reals)


def test_a_gpu_computes_the_same() -> None:
    """By its cores for integers: every bit."""
    model, x, _ = layer((1, 16), 64, 64, 3, 2e-4)
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert "int8" in {kernel.cores for kernel in code.kernels}
    found = GpuProgram(code, EmulatedGpu()).run({"x": x})
    for name, wanted in HostProgram(build_host_code(model), 1).run({"x": x}).items():
        np.testing.assert_array_equal(found[name], wanted)
