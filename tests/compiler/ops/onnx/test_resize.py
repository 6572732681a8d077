"""Resize and Upsample: their tensor expressions against ONNX's reference evaluator."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import ModelError, UnsupportedError
from daedal.common.resampling import COORDINATES, NEAREST
from daedal.compiler import te
from daedal.compiler.graph.ops.foreign import evaluate_onnx
from daedal.compiler.ops.onnx.lower import lower_node
from daedal.compiler.ops.onnx.operation import Operand, ResultType
from tests.support.onnx_operators import check_node, lowered_results

MODES = ["nearest", "linear", "cubic"]
PLAIN = sorted(set(COORDINATES) - {"tf_crop_and_resize", "tf_half_pixel_for_nn"})
CONSTANTS = ["roi", "scales", "sizes"]


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Whole numbers, the same in every order of the tests."""
    rng = np.random.default_rng((7, *shape))
    return np.asarray(rng.integers(0, 100, shape)).astype(dtype)


def feeds(x: np.ndarray, key: str, *values: float) -> dict[str, np.ndarray]:
    dtype = np.int64 if key == "sizes" else np.float32
    return {"x": x, key: np.array(values, dtype)}


def check(x: np.ndarray, key: str, values: tuple[float, ...], **attributes: Any) -> None:
    inputs = ["x", "", "scales"] if key == "scales" else ["x", "", "", "sizes"]
    check_node(
        "Resize",
        feeds(x, key, *values),
        constants=CONSTANTS,
        inputs=inputs,
        rtol=1e-3 if x.dtype == np.float16 else 1e-5,
        atol=1e-4,
        **attributes,
    )


EXTENTS = [
    ("scales", (1, 1, 2, 3)),
    ("scales", (1, 1, 0.5, 0.6)),
    ("scales", (1, 1, 1.7, 0.26)),
    ("sizes", (1, 2, 7, 3)),
    ("sizes", (1, 2, 1, 12)),
]
TO_ONE_ELEMENT = (EXTENTS[2], EXTENTS[4])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("coordinates", "key", "values"),
    [
        (coordinates, *extents)
        for coordinates in PLAIN
        for extents in EXTENTS
        # Its coordinate is 0, which the reference evaluator does not take; the last test does.
        if coordinates != "pytorch_half_pixel" or extents not in TO_ONE_ELEMENT
    ],
)
def test_modes(mode: str, coordinates: str, key: str, values: tuple[float, ...]) -> None:
    x = data(1, 2, 4, 5)
    check(x, key, values, mode=mode, coordinate_transformation_mode=coordinates)


@pytest.mark.parametrize("rounding", NEAREST)
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "align_corners"])
def test_nearest_modes(rounding: str, coordinates: str) -> None:
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": coordinates}
    for size in (1, 2, 3, 5, 6, 7, 12):
        check(data(6), "sizes", (size,), **attributes)


@pytest.mark.parametrize("coefficient", [-0.5, -0.75])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("scale", [0.4, 0.8, 2.5])
def test_cubic(coefficient: float, exclude: int, scale: float) -> None:
    attributes = {"cubic_coeff_a": coefficient, "exclude_outside": exclude}
    check(data(5, 6), "scales", (scale, scale), mode="cubic", **attributes)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("scales", [(0.5, 0.6), (0.3, 0.9), (2.0, 1.3)])
def test_antialias(mode: str, exclude: int, scales: tuple[float, ...]) -> None:
    attributes = {"antialias": 1, "exclude_outside": exclude}
    check(data(9, 10), "scales", scales, mode=mode, **attributes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("roi", [(0.4, 0.6, 0.6, 0.8), (-0.2, 0.0, 1.2, 1.0), (0, 0, 1, 1)])
def test_crop(mode: str, roi: tuple[float, ...]) -> None:
    for sizes in ((3, 3), (1, 5)):
        operands = {"x": data(4, 4), "roi": np.array(roi, np.float32)}
        operands["sizes"] = np.array(sizes, np.int64)
        check_node(
            "Resize",
            operands,
            constants=CONSTANTS,
            inputs=["x", "roi", "", "sizes"],
            mode=mode,
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=10.0,
            atol=1e-4,
        )


@pytest.mark.parametrize("axes", [(2, 3), (3, 2), (1,)])
def test_chosen_axes(axes: tuple[int, ...]) -> None:
    for mode in MODES:
        check(data(1, 2, 4, 5), "scales", (1.5, 0.8)[: len(axes)], mode=mode, axes=list(axes))
        check(data(1, 2, 4, 5), "sizes", (3, 7)[: len(axes)], mode=mode, axes=list(axes))


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_aspect_ratio(policy: str) -> None:
    for sizes in ((7, 8), (3, 3), (10, 2)):
        check(data(4, 5), "sizes", sizes, mode="linear", keep_aspect_ratio_policy=policy)
        check(data(2, 4, 5), "sizes", sizes, axes=[1, 2], keep_aspect_ratio_policy=policy)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16", "float64"])
def test_dtypes(mode: str, dtype: str) -> None:
    """By scales whose weights are exact: no rounding of a sum decides on the next integer."""
    check(data(4, 6, dtype=dtype), "scales", (2.0, 0.5), mode=mode)


def test_integers_round_and_saturate() -> None:
    """Cubic interpolation overshoots."""
    x = np.array([0, 0, 255, 255, 0, 0], np.uint8)
    check(x, "scales", (3.3,), mode="cubic")


def test_coordinates_of_opset_11() -> None:
    """The reference lacks tf_half_pixel_for_nn: (i + 0.5) / scale."""
    node = helper.make_node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )
    x = np.arange(6, dtype=np.float32)
    operands = feeds(x, "scales", 0.5)
    (found,) = lowered_results(node, 11, operands, CONSTANTS, [x[:3]])
    assert found.tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("op_type", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)], ids=str
)
def test_old_opsets(op_type: str, opset: int) -> None:
    scales = [1.0, 3.0]
    attributes: dict[str, Any] = {"scales": scales} if opset < 9 else {}
    names = ["x"] if opset < 9 else ["x", "scales"]
    x = data(2, 3)
    operands = feeds(x, "scales", *scales)
    node = helper.make_node(op_type, names, ["y"], mode="nearest", **attributes)
    wanted = np.repeat(x, 3, axis=1)
    (found,) = lowered_results(node, opset, operands, CONSTANTS, [wanted])
    np.testing.assert_array_equal(found, wanted)
    node = helper.make_node(op_type, names, ["y"], mode="linear", **attributes)
    last = np.concatenate([x, x[:, -1:]], axis=1)
    places = np.arange(9) / 3
    low = places.astype(int)
    wanted = last[:, low] + (last[:, low + 1] - last[:, low]) * (places - low)
    (found,) = lowered_results(node, opset, operands, CONSTANTS, [wanted.astype(np.float32)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_shrinking_in_opset_10() -> None:
    """Source: ONNX, resize_downsample_nearest of opset 10."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    node = helper.make_node("Resize", ["x", "scales"], ["y"], mode="nearest")
    operands = feeds(x, "scales", 1, 1, 0.6, 0.6)
    (found,) = lowered_results(node, 10, operands, CONSTANTS, [x[:, :, :1, :2]])
    assert found.reshape(-1).tolist() == [1, 3]


def formulas(values: tuple[float, ...], tables: bool, **attributes: Any) -> str:
    """The text of a Resize of a tensor of shape (4, 6)."""
    x = te.placeholder((4, 6), "float32", "x")
    scales = np.array(values, np.float32)
    operands = [
        Operand(x, (4, 6)),
        None,
        Operand(te.placeholder((2,), "float32", "s"), (2,), scales),
    ]
    shape = tuple(int(extent * scale) for extent, scale in zip((4, 6), values, strict=True))
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **attributes)
    recorded: dict[te.Tensor, Any] | None = {} if tables else None
    found = lower_node(node, 21, operands, [ResultType(shape, "float32")], "n", recorded)
    return te.tensors_text(found)


def test_whole_scales_need_no_table() -> None:
    assert "x[i0 // 2, i1 // 3]" in formulas((2, 3), tables=False)
    assert "x[i0 * 2, i1 * 3 + 1]" in formulas((1 / 2, 1 / 3), tables=False)


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="a node must not need tables here"):
        formulas((1.5, 1), tables=False)
    x = data(3)
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    with pytest.raises(UnsupportedError, match="operand 2 must be constant"):
        lowered_results(node, 21, feeds(x, "scales", 2), (), [data(6)])
    for values in ((0.0,), (1.0, 2.0), (float("nan"),)):
        with pytest.raises(ModelError, match=r"scales must be positive|of 1 axes must be given"):
            lowered_results(node, 21, feeds(x, "scales", *values), CONSTANTS, [data(6)])
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="smooth")
    with pytest.raises(ModelError, match="mode must be one of nearest, linear, cubic"):
        lowered_results(node, 21, feeds(x, "scales", 2), CONSTANTS, [data(6)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("key", ["scales", "sizes"])
def test_a_single_element_of_pytorch_half_pixel_is_the_first_one(mode: str, key: str) -> None:
    """Its coordinate is 0. Source: ONNX, Resize-19."""
    x = np.arange(40, dtype=np.float32).reshape(1, 2, 4, 5)
    values = (1, 1, 0.3, 1) if key == "scales" else (1, 2, 1, 5)
    attributes = {"mode": mode, "coordinate_transformation_mode": "pytorch_half_pixel"}
    inputs = ["x", "", "scales"] if key == "scales" else ["x", "", "", "sizes"]
    node = helper.make_node("Resize", inputs, ["y"], **attributes)
    wanted = [x[:, :, :1]]
    (found,) = lowered_results(node, 19, feeds(x, key, *values), CONSTANTS, wanted)
    np.testing.assert_array_equal(found, wanted[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scales", [(2.57, 1.13), (0.7, 2.99), (0.4, 0.9)])
def test_fractional_scales_count_with_the_new_length(
    mode: str, scales: tuple[float, float]
) -> None:
    """With align_corners as onnxruntime does, and not ONNX's own evaluator (docs/adr, 23)."""
    x, factors = data(1, 2, 6, 5), np.array([1, 1, *scales], np.float32)
    attributes = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * 4)
    operands = {"x": x, "scales": factors}
    kinds = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, value.shape)
        for name, value in operands.items()
    ]
    model = helper.make_model(
        helper.make_graph([node], "resize", kinds, [result]),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=8,
    )
    (wanted,) = open_session(model)(operands)
    (own,) = ReferenceEvaluator(model).run(None, operands)
    (found,) = lowered_results(node, 19, operands, CONSTANTS, [wanted])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(evaluate_onnx(node, 19, operands)[0], wanted, rtol=1e-4, atol=1e-3)
    assert found.shape == own.shape and np.abs(found - own).max() > 1
