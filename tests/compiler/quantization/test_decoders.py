"""Rewrites of decoders: exact in float, and quantized so that caches and new rows share a scale."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from daedal.compiler.graph.passes.lowering import attention_rule
from daedal.compiler.quantization import masks
from daedal.compiler.quantization.attentions import Attention
from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.given import given_tensors, spread_given
from daedal.compiler.quantization.masks import bound_attention_masks
from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.plan import Plan
from daedal.compiler.quantization.rewrites.caches import ROWS, align_caches
from daedal.compiler.quantization.rewrites.rotary import multiply_rotations
from daedal.onnxruntime_session import open_session
from tests.compiler.quantization.float_networks import FloatNetwork, evaluate
from tests.support.decoders import SmallDecoder, feed_caches

DECODER = SmallDecoder()
REWRITES = {
    "caches": align_caches,
    "rotations": multiply_rotations,
    "given": spread_given,
}


def of_type(model: onnx.ModelProto, op_type: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == op_type]


def rewritten(
    decoder: SmallDecoder, *rewrites: Callable[[Network], None]
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    model = decoder.float_model()
    network = Network(model)
    for rewrite in rewrites:
        rewrite(network)
    return model, network.to_model()


@pytest.mark.parametrize("rewrite", [*REWRITES.values(), *[tuple(REWRITES.values())]])
@pytest.mark.parametrize("decoder", [DECODER, SmallDecoder(heads=3, kv_heads=3, width=12, rows=16)])
def test_a_rewrite_keeps_what_a_decoder_computes(rewrite, decoder, rng) -> None:
    rewrites = rewrite if isinstance(rewrite, tuple) else (rewrite,)
    outputs = []
    tokens = rng.integers(0, decoder.vocabulary, decoder.rows).tolist()
    for model in rewritten(decoder, *rewrites):
        run, names = open_session(model), [item.name for item in model.graph.output]
        steps = feed_caches(
            decoder, lambda feeds, r=run, n=names: dict(zip(n, r(feeds), strict=True)), tokens
        )
        outputs.append([{name: value.copy() for name, value in step.items()} for step in steps])
    for before, after in zip(*outputs, strict=True):
        for name, value in before.items():
            np.testing.assert_allclose(after[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_caches_and_new_rows_fill_blocks() -> None:
    _, model = rewritten(DECODER, align_caches)
    shapes = {
        item.name: tuple(dim.dim_value for dim in item.type.tensor_type.shape.dim)
        for item in onnx.shape_inference.infer_shapes(model).graph.value_info
    }
    joined = [node for node in of_type(model, "Concat") if "cache" in node.input[0]]
    assert len(joined) == 2 * DECODER.layers
    for node in joined:
        assert shapes[node.output[0]][2] == 2 * ROWS
    masks = [node for node in of_type(model, "Concat") if len(node.input) == 4]
    assert len(masks) == 1, "all layers share the mask"


def test_whole_blocks_stay() -> None:
    model, after = rewritten(SmallDecoder(rows=16), align_caches)
    assert len(of_type(after, "Pad")) == 2 * 2, "only the new rows are filled up"
    plain = SmallDecoder(rotary=False)
    model, after = rewritten(plain, multiply_rotations, spread_given)
    assert [node.op_type for node in model.graph.node] == [
        node.op_type for node in after.graph.node
    ]


def test_one_matrix_rotates_all_heads_of_all_layers() -> None:
    model, after = rewritten(DECODER, multiply_rotations)
    assert len(of_type(after, "Neg")) == 0 < len(of_type(model, "Neg"))
    more = len(of_type(after, "MatMul")) - len(of_type(model, "MatMul"))
    assert more == 2 * DECODER.layers
    constants = {item.name: numpy_helper.to_array(item) for item in after.graph.initializer}
    squares = [node.input[1] for node in of_type(after, "MatMul") if node.input[1].endswith("trix")]
    assert len(squares) == more and len(set(squares)) == 1
    turn = next(value for name, value in constants.items() if name.endswith("_turn"))
    np.testing.assert_array_equal(turn @ turn, -np.eye(16))


def test_what_the_host_gives_has_the_shape_of_what_it_is_added_to() -> None:
    _, model = rewritten(DECODER, spread_given)
    assert len(of_type(model, "Expand")) == 4, "cosines and sines, of queries and of keys"
    assert given_tensors(Network(model)) >= {"cos", "sin", "mask", "token"}


def test_caches_share_the_scale_of_their_new_rows() -> None:
    model = onnx.load_from_string(DECODER.quantized())
    producers = {name: node for node in model.graph.node for name in node.output}
    for name in DECODER.caches:
        (quantized,) = (node for node in model.graph.node if name in node.input)
        read = producers[name.replace("cache", "new")]
        assert quantized.op_type == "QuantizeLinear" and read.op_type == "DequantizeLinear"
        assert quantized.input[1:] == read.input[1:]


def test_every_mask_of_attention_can_be_lowered() -> None:
    """A mask for all layers is any number of steps of one layer's scores, not a whole one."""
    assert 0.5 / masks._STEPS <= attention_rule._LARGEST_ERROR


@pytest.mark.parametrize(
    ("mask", "spread"),
    [((4, 4), False), ((1, 1, 4, 4), False), ((2, 1, 4, 4), True), ((1, 3, 1, 4), True)],
)
def test_a_mask_of_rows_and_columns_is_spread_by_the_accelerator(mask, spread, rng) -> None:
    """One for each sample of a batch, or for each head, is spread by the host."""
    net = FloatNetwork(rng)
    scores = net.op("Neg", net.input("x", (2, 3, 4, 4)))
    net.op("Softmax", net.op("Add", scores, net.input("mask", mask)), axis=-1, output="y")
    model = net.model("y")
    network = Network(model)
    spread_given(network)
    types = network.types()
    (added,) = (node for node in network.nodes if node.op_type == "Add")
    assert types[added.input[1]][1] == ((2, 3, 4, 4) if spread else mask)
    feeds = {"x": rng.normal(size=(2, 3, 4, 4)), "mask": rng.normal(size=mask)}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    np.testing.assert_array_equal(
        evaluate(network.to_model(), feeds)["y"], evaluate(model, feeds)["y"]
    )


@pytest.mark.parametrize(("low", "high", "steps"), [(-30.0, 18.0, 64 / 128), (-1.0, 1.0, 1 / 4)])
def test_the_lowest_value_of_a_mask_hides_every_score(low, high, steps) -> None:
    """A hidden score is 16 below the lowest that counts; a step is 512 of scores or more."""
    mask = Attention("q", "k", "v", "s", "m", 1 / 8, "y", ("s", "y"))
    ranges = {"q": Range(-127 / 16, 0), "k": Range(-127 / 16, 0), "s": Range(low, high)}
    plan = Plan({"m": "m"}, frozenset(), attentions=(mask,))
    bound_attention_masks(plan, ranges)
    assert ranges["m"] == Range(-127 * steps, 0.0)


def test_a_constant_mask_covers_caches_and_new_rows(rng) -> None:
    """Each of its columns stays with its row, and what fills the blocks is hidden."""
    net = FloatNetwork(rng)
    cache, new = net.input("cache", (1, 1, 5, 4)), net.input("new", (1, 1, 2, 4))
    rows = net.op("Concat", cache, new, axis=2)
    scores = net.op("MatMul", net.op("Neg", new), net.op("Transpose", rows, perm=[0, 1, 3, 2]))
    weights = net.op("Softmax", net.op("Add", scores, net.normal(1, 1, 2, 7)), axis=-1)
    net.op("MatMul", weights, net.op("Concat", cache, new, axis=2), output="y")
    model = net.model("y")
    network = Network(model)
    align_caches(network)
    (mask,) = (node for node in network.nodes if len(node.input) == 4)
    shapes = [network.constants[name].shape[-1] for name in mask.input]
    assert shapes == [5, ROWS - 5, 2, ROWS - 2]
    feeds = {"cache": rng.normal(size=(1, 1, 5, 4)), "new": rng.normal(size=(1, 1, 2, 4))}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    expected, found = (evaluate(item, feeds)["y"] for item in (model, network.to_model()))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
