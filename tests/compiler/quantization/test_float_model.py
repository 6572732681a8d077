"""`FloatModel`: constants evaluated, nodes that do nothing gone, older opsets converted."""

import numpy as np
import onnx
import pytest
from onnx import helper

from bench.float_network import FloatNetwork
from daedal.common.errors import ModelError
from daedal.compiler.quantization import quantize_model
from tests.compiler.quantization.float_networks import evaluate, simple_model

SHAPE = (1, 3, 4, 5)


def cleaned(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """The model read and written again, which computes the same."""
    after = simple_model(model).to_onnx()
    onnx.checker.check_model(after)
    inputs = {"x": rng.normal(0, 1, SHAPE).astype(np.float32)}
    before = evaluate(model, inputs)
    for name, value in evaluate(after, inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-5, atol=1e-6)
    return after


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_nodes_over_constants_are_evaluated(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    shape = net.constant(np.array([3], np.int64))
    value = helper.make_tensor("value", onnx.TensorProto.FLOAT, [1], [2.5])
    scale = net.op("ConstantOfShape", shape, value=value)
    axes = net.constant(np.array([1, 2], np.int64))
    offset = net.op("Sqrt", net.op("Constant", value_floats=[4.0, 9.0, 16.0]))
    y = net.op("Mul", x, net.op("Unsqueeze", scale, axes))
    net.op("Add", y, net.op("Unsqueeze", offset, axes), output="y")
    assert ops(cleaned(net.model("y"), rng)) == ["Mul", "Add"]


def test_static_shapes_are_constants(rng: np.random.Generator) -> None:
    """What exporters write for ``x.view(x.size(0), -1)``."""
    net = FloatNetwork(rng)
    x = net.input("x", ("batch", *SHAPE[1:]))
    zero, minus_one = (net.constant(np.array(value, np.int64)) for value in (0, [-1]))
    axes = net.constant(np.array([0], np.int64))
    batch = net.op("Unsqueeze", net.op("Gather", net.op("Shape", x), zero, axis=0), axes)
    net.op("Reshape", x, net.op("Concat", batch, minus_one, axis=0), output="y")
    model = net.model("y")
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "batch"
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 60
    after = cleaned(model, rng)
    assert ops(after) == ["Reshape"]
    assert after.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1


def test_a_shape_of_what_a_computed_shape_made_is_constant(rng: np.random.Generator) -> None:
    """What exporters write for a padding whose width they compute, and a view behind it."""
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    one, eight, minus_one = (net.constant(np.array([value], np.int64)) for value in (1, 8, -1))
    pads = net.op("Concat", net.op("Mod", one, eight), net.op("Neg", minus_one), axis=0)
    before = net.op("ConstantOfShape", net.op("Sub", eight, net.op("Shape", pads)))
    before = net.op("Cast", before, to=onnx.TensorProto.INT64)
    x = net.op("Pad", x, net.op("Concat", before, pads, axis=0))
    rows = net.op("Gather", net.op("Shape", x), one, axis=0)
    net.op("Reshape", x, net.op("Concat", rows, minus_one, axis=0), output="y")
    assert ops(cleaned(net.model("y"), rng)) == ["Pad", "Reshape"]


def test_random_nodes_and_outputs_stay(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.input("x", SHAPE)
    noise = net.op("RandomNormal", shape=[1, 3, 4, 5], seed=1.0)
    net.op("RandomNormalLike", net.normal(*SHAPE), output="z")
    net.op("Add", x, noise, output="y")
    net.op("Neg", net.normal(3), output="c")
    after = simple_model(net.model("y", "c", "z")).to_onnx()
    assert ops(after) == ["RandomNormal", "RandomNormalLike", "Add"]
    assert [item.name for item in after.graph.output] == ["y", "c", "z"]


def test_outputs_that_the_graph_lacks_keep_their_types(rng: np.random.Generator) -> None:
    """Of a type that the graph has not, and a constant."""
    net = FloatNetwork(rng)
    x = net.op("Relu", net.input("x", SHAPE), output="y")
    net.op("Cast", x, to=onnx.TensorProto.DOUBLE, output="z")
    net.op("Neg", net.normal(3), output="c")
    model = net.model("y", "z", "c")
    model.graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    after = cleaned(onnx.shape_inference.infer_shapes(model), rng)
    kinds = [item.type.tensor_type.elem_type for item in after.graph.output]
    assert kinds == [onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT]


def test_identities_and_dropout_vanish(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.op("Identity", net.input("x", SHAPE))
    x = net.op("Relu", net.op("Dropout", x))
    net.op("Identity", x, output="y")
    net.op("Abs", x, output="z")
    after = cleaned(net.model("y", "z"), rng)
    assert ops(after) == ["Relu", "Abs"]
    assert after.graph.node[0].output[0] == after.graph.node[1].input[0] == "y"


def test_moves_that_move_nothing_vanish(rng: np.random.Generator) -> None:
    """And those that only look like it stay: a slice backwards, a square that is turned."""
    net = FloatNetwork(rng)
    shape, first, last, axis = (
        net.constant(np.array(value, np.int64)) for value in (SHAPE, [0], [2**63 - 1], [2])
    )
    x = net.op("Relu", net.input("x", SHAPE))
    x = net.op("Pad", x, net.constant(np.zeros(8, np.int64)))
    x = net.op("Slice", x, first, last, axis)
    x = net.op("Expand", net.op("Reshape", x, shape), shape)
    x = net.op("Cast", x, to=onnx.TensorProto.FLOAT)
    x = net.op("Abs", net.op("Transpose", x, perm=[0, 1, 2, 3]))
    backwards = [net.constant(np.array([value], np.int64)) for value in (-1, -(2**63), 2, -1)]
    x = net.op("Slice", x, *backwards)
    x = net.op("Reshape", x, net.constant(np.array([15, 2, 2], np.int64)))
    net.op("Transpose", x, perm=[0, 2, 1], output="y")
    assert ops(cleaned(net.model("y"), rng)) == ["Relu", "Abs", "Slice", "Reshape", "Transpose"]


def test_dropout_that_trains_or_gives_its_mask_stays(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    ratio, training = net.constant(np.float32(0.5)), net.constant(np.array(True))
    x = net.input("x", SHAPE)
    net.op("Dropout", x, ratio, training, output="y")
    net.nodes.append(helper.make_node("Dropout", [x], ["z", "mask"], name="masked"))
    net.op("Cast", "mask", output="m", to=onnx.TensorProto.FLOAT)
    assert ops(simple_model(net.model("y", "z", "m")).to_onnx()) == ["Dropout", "Dropout", "Cast"]


def test_an_input_that_is_an_output_is_copied(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    net.op("Identity", net.input("x", SHAPE), output="y")
    assert ops(cleaned(net.model("y"), rng)) == ["Reshape"]


def test_older_opsets_are_converted(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng, opset=9)
    x = net.conv(net.input("x", SHAPE), 3, 64)
    x = net.op("Dropout", net.op("Clip", x, min=0.0, max=1.0), ratio=0.25)
    x = net.op("Squeeze", net.op("GlobalAveragePool", x), axes=[2, 3])
    net.op("Softmax", x, axis=1, output="y")
    after = cleaned(net.model("y"), rng)
    assert after.opset_import[0].version == 21
    assert "Dropout" not in ops(after)
    (clip,) = (node for node in after.graph.node if node.op_type == "Clip")
    assert len(clip.input) == 3


def test_control_flow_is_refused(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    value = helper.make_tensor_value_info("inner", onnx.TensorProto.FLOAT, SHAPE)
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["inner"])], "body", [], [value])
    net.input("x", SHAPE)
    net.op("If", net.constant(np.array(True)), output="y", then_branch=body, else_branch=body)
    with pytest.raises(ModelError, match=r"no control flow to be quantized \(node 'y/If'"):
        quantize_model(net.model("y"), np.zeros(SHAPE, np.float32))


def test_only_the_batch_may_be_symbolic(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    net.op("Relu", net.input("x", (1, 3, "height", 4)), output="y")
    with pytest.raises(ModelError, match="input 'x' has symbolic dimensions; fix them"):
        quantize_model(net.model("y"), np.zeros(SHAPE, np.float32))
