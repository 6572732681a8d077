"""Resized axes: the nearest elements against onnxruntime, all else against ONNX's own evaluator."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from daedal.checking.onnxruntime_session import open_session
from daedal.common.onnx_evaluator import evaluator_of
from daedal.common.resampling import COORDINATES, NEAREST, Axis, nearest

EXTENTS = (*range(1, 14), 20, 26, 31)
FACTORS = (0.3, 0.5, 0.6, 2 / 3, 1.3, 1.5, 1.7, 2.0, 2.5, 3.0)

Array = npt.NDArray[Any]


def resize_model(
    resizes: list[tuple[str, str, Array]], shapes: dict[str, tuple[int, ...]], **attributes: Any
) -> onnx.ModelProto:
    """A Resize for each (input, "scales" or "sizes", value); its result is its number."""
    nodes, constants, outputs = [], [], []
    for number, (name, key, value) in enumerate(resizes):
        constants.append(numpy_helper.from_array(value, f"c{number}"))
        operands = [f"c{number}"] if key == "scales" else ["", f"c{number}"]
        nodes.append(
            helper.make_node("Resize", [name, "", *operands], [f"y{number}"], **attributes)
        )
        rank = [None] * len(shapes[name])
        outputs.append(helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, rank))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(nodes, "resize", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)


@pytest.mark.parametrize("rounding", NEAREST)
@pytest.mark.parametrize(
    "coordinates", sorted(COORDINATES.keys() - {"tf_crop_and_resize", "tf_half_pixel_for_nn"})
)
def test_nearest_elements_are_those_of_onnxruntime(coordinates: str, rounding: str) -> None:
    """Also where a coordinate lies between two elements. 405 axes."""
    resizes: list[tuple[str, str, Array]] = []
    axes = []
    for old in EXTENTS:
        for new in EXTENTS:
            resizes.append((f"x{old}", "sizes", np.array([new])))
            axes.append(Axis(old, new, new / old))
        for factor in np.array(FACTORS, np.float32):
            new = int(np.float32(old) * factor)
            # onnxruntime copies a tensor whose shape stays, whatever the scale.
            if new not in (0, old):
                resizes.append((f"x{old}", "scales", factor.reshape(1)))
                axes.append(Axis(old, new, float(factor)))
    model = resize_model(
        resizes,
        {f"x{old}": (old,) for old in EXTENTS},
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )
    feeds = {f"x{old}": np.arange(old, dtype=np.float32) for old in EXTENTS}
    for axis, wanted in zip(axes, open_session(model)(feeds), strict=True):
        found = nearest(axis, coordinates, rounding).indices[:, 0]
        np.testing.assert_array_equal(found, wanted, err_msg=str(axis))


@pytest.mark.parametrize(
    ("mode", "antialias"),
    [("nearest", 0), ("linear", 0), ("cubic", 0), ("linear", 1), ("cubic", 1)],
)
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "half_pixel_symmetric"])
def test_the_evaluator_agrees_with_that_of_onnx(
    coordinates: str, mode: str, antialias: int, rng: np.random.Generator
) -> None:
    shape = (2, 5, 7)
    resizes: list[tuple[str, str, Array]] = [
        ("x", "scales", np.array(scales, np.float32))
        for scales in ((1, 2.5, 0.61), (1, 0.45, 1.7), (2, 1, 1))
    ]
    resizes += [("x", "sizes", np.array(sizes)) for sizes in ((2, 3, 12), (1, 8, 2))]
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    model = resize_model(resizes, {"x": shape}, antialias=antialias, **attributes)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    own = evaluator_of(model).run(None, feeds)
    for found, wanted in zip(own, ReferenceEvaluator(model).run(None, feeds), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_the_evaluator_keeps_ratios_and_takes_axes(policy: str, rng: np.random.Generator) -> None:
    attributes = {"keep_aspect_ratio_policy": policy, "mode": "linear", "axes": [2, -2]}
    model = resize_model([("x", "sizes", np.array([3, 11]))], {"x": (2, 5, 7)}, **attributes)
    feeds = {"x": rng.standard_normal((2, 5, 7)).astype(np.float32)}
    (found,) = evaluator_of(model).run(None, feeds)
    attributes["axes"] = [2, 1]
    model = resize_model([("x", "sizes", np.array([3, 11]))], {"x": (2, 5, 7)}, **attributes)
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


def test_the_evaluator_crops(rng: np.random.Generator) -> None:
    """Elements outside the axis have the value of extrapolation."""
    node = helper.make_node(
        "Resize",
        ["x", "roi", "", "sizes"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
    )
    constants = [
        numpy_helper.from_array(np.array([-0.2, 0.1, 1.1, 0.9], np.float32), "roi"),
        numpy_helper.from_array(np.array([6, 3]), "sizes"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 5))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (6, 3))
    model = helper.make_model(
        helper.make_graph([node], "crop", [x], [y], constants),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=8,
    )
    feeds = {"x": rng.standard_normal((4, 5)).astype(np.float32)}
    (found,) = evaluator_of(model).run(None, feeds)
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    assert (found == 9).sum() == 6
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)
