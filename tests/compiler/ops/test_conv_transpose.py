"""Transposed convolutions: dense ones by residue, against the definition and onnxruntime."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run, run_all
from daedal.compiler.graph.ops.sub_kernels import sub_kernels, transposed_extents
from daedal.compiler.graph.sub_kernel_layout import SubKernelLayout
from daedal.isa.verifier import verify


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, tuple[int, ...]]:
    """Kernel, strides, pads, dilations, output padding and the map's extents."""
    kernel, strides, dilations, padding, extents, starts, ends = ([] for _ in range(7))
    for _ in range(2):
        kernel.append(draw(st.integers(1, 4)))
        strides.append(draw(st.integers(1, 3)))
        dilations.append(draw(st.integers(1, 3)))
        # onnxruntime takes only what is below the stride.
        padding.append(draw(st.integers(0, strides[-1] - 1)))
        extents.append(draw(st.integers(1, 5)))
        size = strides[-1] * (extents[-1] - 1) + padding[-1] + (kernel[-1] - 1) * dilations[-1] + 1
        starts.append(draw(st.integers(0, min(2, size - 1))))
        ends.append(draw(st.integers(0, min(2, size - 1 - starts[-1]))))
    return {
        "kernel": tuple(kernel),
        "strides": tuple(strides),
        "pads": (*starts, *ends),
        "dilations": tuple(dilations),
        "output_padding": tuple(padding),
        "extents": tuple(extents),
    }


@given(geometries())
def test_parts_meet_every_input_that_a_tap_brings_to_an_output(geometry):
    """By the definition input i and tap r add to output i * stride + r * dilation - pad."""
    outputs = transposed_extents(
        geometry["extents"],
        geometry["kernel"],
        geometry["strides"],
        geometry["pads"],
        geometry["dilations"],
        geometry["output_padding"],
    )
    parts = sub_kernels(
        geometry["kernel"], geometry["strides"], geometry["pads"], geometry["dilations"], outputs
    )
    for axis in range(2):
        stride, dilation = geometry["strides"][axis], geometry["dilations"][axis]
        wanted = {
            (i * stride + r * dilation - geometry["pads"][axis], i, r)
            for i in range(geometry["extents"][axis])
            for r in range(geometry["kernel"][axis])
        }
        wanted = {item for item in wanted if 0 <= item[0] < outputs[axis]}
        found = {
            (part.phase + k * stride, k + j * part.dilation - part.pad, tap)
            for part in {pair[axis] for pair in parts}
            for k in range(part.extent)
            for j, tap in enumerate(part.taps)
        }
        inside = {item for item in found if 0 <= item[1] < geometry["extents"][axis]}
        assert inside == wanted
        assert {item[0] for item in found} <= set(range(outputs[axis]))


@given(geometries(), st.integers(1, 9), st.integers(1, 9))
def test_weights_come_back(geometry, outs, ins):
    parts = sub_kernels(
        geometry["kernel"], geometry["strides"], geometry["pads"], geometry["dilations"], (12, 12)
    )
    shape = (outs, ins, *geometry["kernel"])
    layout = SubKernelLayout(4, 8, shape, parts)
    values = np.arange(1, np.prod(shape) + 1).reshape(shape)
    packed = layout.pack(values)
    assert packed.shape == layout.physical_shape(shape)
    np.testing.assert_array_equal(layout.unpack(packed)[:outs, :ins], values)
    assert np.count_nonzero(packed) == values.size


def transposed_model(
    rng: np.random.Generator,
    shape: tuple[int, int, int, int],
    out_channels: int,
    geometry: dict[str, tuple[int, ...]],
    bias: bool = True,
    zero_point: int = 3,
) -> onnx.ModelProto:
    model = QdqModel()
    x = model.requantized(model.input("x", shape), 0.02, zero_point, output="x_q")
    values = rng.integers(-127, 128, (shape[1], out_channels, *geometry["kernel"]), dtype=np.int8)
    scales = rng.uniform(0.005, 0.02, out_channels).astype(np.float32)
    operands = [x, model.weights(values, scales, axis=1)]
    if bias:
        steps = rng.integers(-2000, 2000, out_channels)
        operands.append(model.bias(steps, scales * np.float32(0.02)))
    y = model.op(
        "ConvTranspose",
        *operands,
        kernel_shape=list(geometry["kernel"]),
        **{k: list(geometry[k]) for k in ("strides", "pads", "dilations", "output_padding")},
    )
    taps = values[:, 0].size / min(values[0, 0].size, np.prod(geometry["strides"]))
    return model.model(model.requantized(y, 0.01 * np.sqrt(taps) * 2.7, -5, output="y_q"))


@settings(max_examples=8)
@given(
    st.sampled_from(["tiny", "vta", "wide", "batch4"]),
    geometries(),
    st.integers(1, 20),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from([-128, 0, 3]),
    st.integers(0, 2**32 - 1),
)
def test_programs(variant, geometry, ins, outs, bias, zero_point, seed):
    """onnxruntime ~ the reference = the verified program; products with zeros may be left out."""
    rng = np.random.default_rng(seed)
    shape = (4 if variant == "batch4" else 1, ins, *geometry["extents"])
    model = transposed_model(rng, shape, outs, geometry, bias, zero_point)
    artifact = daedal.compile(model.SerializeToString(), variant)
    verify(artifact.program)
    x = {"x": rng.uniform(-2.6, 2.6, shape).astype(np.float32)}
    graph = processor_graph(model.SerializeToString(), artifact.program.variant)
    assert all(item.largest <= 1 for item in compare_operators(model, graph, x))
    expected = run_all(graph, x)["y_q"]
    found = daedal.simulate(artifact, x).tensors["y_q"].reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)
    assert artifact.layers[0].macs == np.prod(shape) * outs * np.prod(geometry["kernel"])


def test_products_take_the_time(rng):
    """4x4 with stride 2, which decoders use: four dense 2x2 convolutions, nothing inserted."""
    geometry = {
        "kernel": (4, 4),
        "strides": (2, 2),
        "pads": (1, 1, 1, 1),
        "dilations": (1, 1),
        "output_padding": (0, 0),
    }
    model = transposed_model(rng, (1, 64, 14, 14), 64, geometry)
    artifact = daedal.compile(model.SerializeToString(), "vta")
    x = {"x": rng.uniform(-2.6, 2.6, (1, 64, 14, 14)).astype(np.float32)}
    result = daedal.simulate(artifact, x, device="timing")
    assert len(np.unique(result.tensors["y_q"])) > 200
    assert result.profiles[0].cycles < 1.1 * artifact.layers[0].macs / 256


@given(geometries(), st.integers(0, 2**32 - 1))
def test_float_operator(geometry, seed):
    rng = np.random.default_rng(seed)
    maker = QdqModel()
    x = maker.input("x", (2, 3, *geometry["extents"]))
    w = maker.constant(rng.normal(size=(3, 2, *geometry["kernel"])).astype(np.float32))
    b = maker.constant(rng.normal(size=2).astype(np.float32))
    attrs = {k: list(geometry[k]) for k in ("strides", "pads", "dilations", "output_padding")}
    model = maker.model(maker.op("ConvTranspose", x, w, b, **attrs))
    values = {"x": rng.normal(size=(2, 3, *geometry["extents"])).astype(np.float32)}
    graph = load_onnx(model.SerializeToString())
    (found,) = run(graph, values).values()
    (expected,) = run_onnxruntime(model, values)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def with_attributes(rng, **attrs) -> bytes:
    """A model of one float transposed convolution."""
    maker = QdqModel()
    w = maker.constant(rng.normal(size=(4, 2, 3, 3)).astype(np.float32))
    maker.op("ConvTranspose", maker.input("x", (1, 4, 3, 3)), w, output="y", **attrs)
    graph = onnx.helper.make_graph(
        maker.nodes,
        "refused",
        maker.inputs,
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [*"nchw"])],
        maker.initializers,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"kernel_shape": [2, 2]}, r"kernel_shape must match the weights, not \[2, 2\]"),
        ({"pads": [9, 9, 9, 9]}, "a transposed convolution must have a result, not one of"),
    ],
)
def test_refusals(attrs, message, rng):
    with pytest.raises(ModelError, match=message):
        load_onnx(with_attributes(rng, **attrs))


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"group": 2}, "group"),
        ({"auto_pad": "SAME_UPPER"}, "auto_pad must be NOTSET or VALID"),
        ({"output_shape": [4, 4]}, "output_shape must not be given"),
    ],
)
def test_forms_that_are_left_to_the_host(attrs, reason, rng):
    (node,) = load_onnx(with_attributes(rng, **attrs)).nodes
    assert node.op == "onnx" and reason in node.note
