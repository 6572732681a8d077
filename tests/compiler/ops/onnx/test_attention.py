"""Attention and rotary embeddings as tensor expressions, against ONNX's reference evaluator."""

from typing import Any

import numpy as np
import onnx
import pytest

from daedal.common.errors import ModelError
from daedal.compiler.graph.ops.foreign import evaluate_onnx
from tests.support.onnx_operators import check_node
from tests.support.onnx_values import check_values, floats, integers

BATCH, HEADS, QUERIES, KEYS, SIZE, WIDTH = 2, 4, 3, 5, 6, 7


def operands(heads: int = HEADS, dtype: str = "float32", keys: int = KEYS) -> dict[str, Any]:
    """Query, keys and values of four dimensions."""
    return {
        "q": floats(BATCH, HEADS, QUERIES, SIZE, dtype=dtype),
        "k": floats(BATCH, heads, keys, SIZE, dtype=dtype),
        "v": floats(BATCH, heads, keys, WIDTH, dtype=dtype),
    }


def check(feeds: dict[str, Any], **given: Any) -> None:
    given = {"opset": 23, "rtol": 1e-4, "atol": 1e-5, **given}
    check_node("Attention", feeds, **given)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_heads(heads: int) -> None:
    check(operands(heads))
    check(operands(heads), scale=0.3, softcap=1.5)
    check(operands(heads), opset=24)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_three_dimensions(heads: int) -> None:
    feeds = {
        name: np.ascontiguousarray(array.swapaxes(1, 2)).reshape(BATCH, array.shape[2], -1)
        for name, array in operands(heads).items()
    }
    check(feeds, q_num_heads=HEADS, kv_num_heads=heads)
    check(feeds, q_num_heads=HEADS, kv_num_heads=heads, is_causal=1)
    with pytest.raises(ModelError, match="three with a number of heads"):
        check_values("Attention", feeds, [floats(1)], opset=23, q_num_heads=4)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize(
    "shape", [(KEYS,), (3, KEYS), (1, 3, KEYS), (4, 1, KEYS), (2, 4, 3, KEYS), (2, 1, 3, 4)]
)
def test_masks(shape: tuple[int, ...], dtype: str, causal: int) -> None:
    mask = floats(*shape) if dtype == "float32" else integers(*shape, low=0, high=2) > 0
    feeds = {**operands(2), "mask": mask}
    if not causal:
        check(feeds)
        return
    # ONNX's evaluator hides keys as for one query where the mask has one row: give it all rows.
    rows = {**feeds, "mask": np.broadcast_to(mask, (BATCH, HEADS, QUERIES, mask.shape[-1]))}
    proto = onnx.helper.make_node("Attention", list(feeds), ["y"], is_causal=1)
    wanted = evaluate_onnx(proto, 23, rows)
    check_values("Attention", feeds, wanted, opset=23, rtol=1e-4, atol=1e-5, is_causal=1)


def test_a_row_without_keys_is_0() -> None:
    mask = np.ones((QUERIES, KEYS), bool)
    mask[1] = False
    check({**operands(), "mask": mask})


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_results(mode: int) -> None:
    feeds = {**operands(2), "mask": floats(QUERIES, KEYS)}
    check(feeds, results=4, qk_matmul_output_mode=mode, is_causal=1)
    if mode:
        # In mode 0, ONNX's evaluator gives what is capped.
        check(feeds, results=4, qk_matmul_output_mode=mode, softcap=2.0)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("dimensions", [3, 4])
def test_past(causal: int, dimensions: int) -> None:
    feeds = operands(2)
    given: dict[str, Any] = {"is_causal": causal, "results": 3}
    if dimensions == 3:
        for name in "qkv":
            shape = (BATCH, feeds[name].shape[2], -1)
            feeds[name] = np.ascontiguousarray(feeds[name].swapaxes(1, 2)).reshape(shape)
        given |= {"q_num_heads": HEADS, "kv_num_heads": 2}
    feeds["past_k"], feeds["past_v"] = floats(BATCH, 2, 3, SIZE), floats(BATCH, 2, 3, WIDTH)
    check(feeds, inputs=["q", "k", "v", "", "past_k", "past_v"], **given)
    feeds["mask"] = floats(QUERIES, KEYS + 3)
    check(feeds, inputs=["q", "k", "v", "mask", "past_k", "past_v"], **given)


@pytest.mark.parametrize("causal", [0, 1])
def test_lengths_of_a_cache(causal: int) -> None:
    feeds = {**operands(2), "lengths": np.asarray([2, 5])}
    check(feeds, inputs=["q", "k", "v", "", "", "", "lengths"], opset=24, is_causal=causal)


@pytest.mark.parametrize(("left", "right"), [(1, -1), (-1, 1), (1, 0), (0, 2)])
def test_windows(left: int, right: int) -> None:
    feeds = operands(keys=QUERIES)
    windows = {"left_window_size": left, "right_window_size": right}
    check(feeds, opset=25, **windows)
    check(feeds, opset=25, is_causal=1, **windows)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("float64", 1e-6)])
def test_dtypes(dtype: str, tolerance: float) -> None:
    check(operands(2, dtype), rtol=tolerance, atol=tolerance)
    check(operands(2, dtype), rtol=tolerance, atol=tolerance, softmax_precision=11)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 4])
@pytest.mark.parametrize("dimensions", [3, 4])
@pytest.mark.parametrize("positions", [False, True])
def test_rotary_embedding(interleaved: int, turned: int, dimensions: int, positions: bool) -> None:
    heads, length, size = 3, 4, 8
    shape = (BATCH, heads, length, size) if dimensions == 4 else (BATCH, length, heads * size)
    angles = (9,) if positions else (BATCH, length)
    half = (turned or size) // 2
    feeds = {"x": floats(*shape), "cos": floats(*angles, half), "sin": floats(*angles, half)}
    if positions:
        feeds["positions"] = integers(BATCH, length, dtype="int64", low=0, high=8)
    given: dict[str, Any] = {"interleaved": interleaved, "rotary_embedding_dim": turned}
    if dimensions == 3:
        given["num_heads"] = heads
    check_node("RotaryEmbedding", feeds, opset=23, **given)


def test_rotary_embedding_of_float16() -> None:
    feeds = {
        "x": floats(1, 2, 3, 4, dtype="float16"),
        "cos": floats(1, 3, 2, dtype="float16"),
        "sin": floats(1, 3, 2, dtype="float16"),
    }
    check_node("RotaryEmbedding", feeds, opset=23, rtol=5e-3, atol=5e-3)
