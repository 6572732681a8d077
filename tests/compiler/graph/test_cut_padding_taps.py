"""Convolutions whose taps reach past the map."""

import numpy as np
import pytest

import daedal
import daedal.backend
from bench.float_network import FloatNetwork
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph import Graph, run, verify
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.graph.passes import cut_padding_taps

CONVOLUTION = """
graph taps {{
  input x: float32[1,4,{map}]
  const w: float32[6,2,{kernel}] = ?
  const b: float32[6] = ?
  y: float32[1,6,{result}] = conv2d(x, w, b) dilations={steps} groups=2 {window}
  output y
}}
"""


ONE = "1,1"


@pytest.mark.parametrize(
    ("extents", "kernel", "result", "steps", "pads", "strides", "left"),
    [
        pytest.param("2,2", "3,3", "2,2", "2,2", "2,2,2,2", ONE, "1,1 0,0,0,0", id="dilated"),
        pytest.param("2,1", "7,7", "2,1", ONE, "3,3,3,3", ONE, "3,1 1,0,1,0", id="large"),
        pytest.param("3,4", "3,3", "3,4", ONE, "1,1,1,1", ONE, "3,3 1,1,1,1", id="all meet it"),
        pytest.param("1,3", "3,3", "1,2", ONE, "1,1,1,1", "2,2", "1,3 0,1,0,1", id="strides"),
        pytest.param(ONE, "2,3", ONE, ONE, "1,2,0,0", ONE, "1,1 0,0,0,0", id="ends"),
        pytest.param(ONE, ONE, ONE, ONE, "3,0,0,0", "4,1", "1,1 3,0,0,0", id="none meets it"),
    ],
)
def test_kernels(
    rng: np.random.Generator,
    extents: str,
    kernel: str,
    result: str,
    steps: str,
    pads: str,
    strides: str,
    left: str,
) -> None:
    text = CONVOLUTION.format(
        map=extents,
        kernel=kernel,
        result=result,
        steps=steps,
        window=f"pads={pads} strides={strides}",
    )
    before = parse_graph(text, rng=rng)
    after = cut_padding_taps(before)
    verify(after)
    (node,) = after.nodes
    taps = after.types[node.inputs[1]].shape[2:], ints(node.attrs, "pads")
    assert " ".join(",".join(map(str, item)) for item in taps) == left
    values = {"x": rng.normal(size=before.types["x"].shape).astype(np.float32)}
    np.testing.assert_allclose(run(after, values)["y"], run(before, values)["y"], atol=1e-5)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
@pytest.mark.parametrize(
    ("extents", "kernel", "result", "window", "left"),
    [
        pytest.param("1,1", "384,384", "1,1", "0,0,383,383 384,384", "1,1 0,0,0,0", id="images"),
        pytest.param("2,3", "7,7", "2,3", "3,3,3,3 1,1", "3,5 1,2,1,2", id="large"),
        pytest.param("3,3", "3,3", "2,2", "1,1,1,1 2,2", "3,3 1,1,1,1", id="all meet it"),
    ],
)
def test_windows_of_pools(
    rng: np.random.Generator,
    op: str,
    extents: str,
    kernel: str,
    result: str,
    window: str,
    left: str,
) -> None:
    pads, strides = window.split()
    before = _pool(op, extents, kernel, result, pads, strides, "0,0,0,0")
    after = cut_padding_taps(before)
    verify(after)
    (node,) = after.nodes
    found = ints(node.attrs, "kernel"), ints(node.attrs, "pads")
    assert " ".join(",".join(map(str, item)) for item in found) == left
    values = {"x": rng.normal(size=before.types["x"].shape).astype(np.float32)}
    np.testing.assert_array_equal(run(after, values)["y"], run(before, values)["y"])


def test_pads_that_count_in_an_average_stay() -> None:
    before = _pool("avg_pool", "2,2", "5,5", "2,2", "2,2,2,2", "1,1", "2,2,2,2")
    assert str(cut_padding_taps(before)) == str(before)


def _pool(
    op: str, extents: str, kernel: str, result: str, pads: str, strides: str, counted: str
) -> Graph:
    more = f"counted_pads={counted} " if op == "avg_pool" else ""
    return parse_graph(f"""
graph pool {{
  input x: float32[1,4,{extents}]
  y: float32[1,4,{result}] = {op}(x) {more}kernel={kernel} pads={pads} strides={strides}
  output y
}}
""")


def test_a_dilated_layer_on_every_target(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.op("Relu", net.conv(net.input("x", (1, 16, 5, 5)), 16, 16))
    near = net.conv(x, 16, 16, pads=[4] * 4, dilations=[4, 4])
    far = net.conv(x, 16, 16, pads=[6] * 4, dilations=[6, 6])
    net.conv(net.op("Concat", near, far, axis=1), 32, 8, 1)
    net.nodes[-1].output[0] = "y"
    model = net.model("y")
    images = rng.normal(size=(8, 16, 5, 5)).astype(np.float32)
    (expected,) = run_onnxruntime(model.SerializeToString(), {"x": images[:1]})
    (found,) = daedal.backend.prepare(model).run({"x": images[:1]})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    quantized = daedal.quantize(model.SerializeToString(), images)
    artifact = daedal.compile(quantized, "vta")
    layers = [layer for launch in artifact.launches for layer in launch.layers]
    taps = sorted(layer.macs / (25 * 16 * 16) for layer in layers if "conv2d" in layer.op)
    assert taps == [1, 1, 9, 9]
    assert daedal.check_layers(artifact, quantized, {"x": images[:1]}).passed
