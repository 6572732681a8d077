"""A tour: one matrix product from ONNX to the cycles of the accelerator. Read it from the top."""

import numpy as np
import onnx
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.compiler.graph import run
from daedal.isa.assembly import disassemble

RNG = np.random.default_rng(0)
WEIGHTS = RNG.integers(-127, 128, (8, 16))
X = RNG.uniform(-4, 4, (1, 16)).astype(np.float32)

# y = x @ weights.T, quantized: every tensor q stands for scale * (q - zero_point).
MODEL = onnx.parser.parse_model(f"""
    <ir_version: 8, opset_import: ["": 13]>
    gemm (float[1,16] x) => (float[1,8] y)
    <float x_scale = {{0.04}}, int8 x_zero = {{3}}, float y_scale = {{0.2}}, int8 y_zero = {{-5}},
     float w_scale = {{0.01}}, int8 w_zero = {{0}},
     int8[8,16] w_q = {{{", ".join(map(str, WEIGHTS.flat))}}}>
    {{
      x_q = QuantizeLinear(x, x_scale, x_zero)
      x_dq = DequantizeLinear(x_q, x_scale, x_zero)
      w = DequantizeLinear(w_q, w_scale, w_zero)
      product = Gemm<transB = 1>(x_dq, w)
      y_q = QuantizeLinear(product, y_scale, y_zero)
      y = DequantizeLinear(y_q, y_scale, y_zero)
    }}""")


@pytest.mark.rtl
def test_tour() -> None:
    # A variant describes one machine: `tiny` multiplies 8 by 8x8 int8 values per cycle.
    tiny = daedal.load_variant("tiny")

    # Between the quantized tensors the model becomes integer operators. An interpreter of that
    # graph is the reference; onnxruntime's rounding is at most one unit away from it.
    graph = processor_graph(MODEL.SerializeToString(), tiny)
    reference = run(graph, {"x": X})["y"]
    assert all(item.largest <= 1 for item in compare_operators(MODEL, graph, {"x": X}))

    # The compiler makes one program of the whole network; the host quantizes and dequantizes.
    artifact = daedal.compile(MODEL.SerializeToString(), tiny)
    assert artifact.host_nodes[0].op == "quantize"
    assert [layer.macs for layer in artifact.layers] == [8 * 16]
    assembly = disassemble(artifact.program.instructions)
    assert assembly.index("LOAD") < assembly.index("GEMM") < assembly.index("STORE")

    # The functional simulator computes without time, the RTL simulator clock by clock.
    functional = daedal.simulate(artifact, {"x": X})
    rtl = daedal.simulate(artifact, {"x": X}, device=rtl_device(tiny))
    np.testing.assert_array_equal(functional.outputs["y"], reference)
    np.testing.assert_array_equal(rtl.outputs["y"], reference)
    assert functional.profiles[0].cycles is None and rtl.profiles[0].cycles < 2000
