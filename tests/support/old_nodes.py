"""Nodes of older operator sets whose form or meaning changed later, with inputs: for each rule of
`compiler.frontend.upgrade` at least one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

__all__ = ["CASES", "OldNode"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OldNode:
    """A node of an operator set, whose first operand is the model's input unless `fed` says more.

    Attributes
    ----------
    operands : all of them, in order.
    fed : how many are inputs; the others are constants.
    """

    op_type: str
    opset: int
    operands: Sequence[Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    fed: int = 1
    results: int = 1

    def __str__(self) -> str:
        words = (f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.op_type}-{self.opset}({', '.join(words)})"

    @property
    def names(self) -> list[str]:
        return [f"x{number}" for number in range(len(self.operands))]

    @property
    def feeds(self) -> dict[str, Array]:
        return dict(zip(self.names[: self.fed], self.operands, strict=False))

    def model(self) -> onnx.ModelProto:
        outputs = [f"y{number}" for number in range(self.results)]
        node = helper.make_node(self.op_type, self.names, outputs, "node", **self.attributes)
        graph = helper.make_graph(
            [node],
            "old",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in self.feeds.items()
            ],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [
                numpy_helper.from_array(array, name)
                for name, array in zip(
                    self.names[self.fed :], self.operands[self.fed :], strict=True
                )
            ],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _reals(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _floats(*values: float) -> Array:
    return np.array(values, np.float32)


def _reductions() -> list[OldNode]:
    names = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    x = np.abs(_reals(2, 3, 4)) + 0.5
    return [
        *(OldNode(f"Reduce{name}", 17, [x], {"axes": [1, -1]}) for name in names),
        OldNode("ReduceMean", 7, [x], {"keepdims": 0}),
        OldNode("ReduceMax", 12, [x.astype(np.float64)], {"axes": [0], "keepdims": 0}),
        OldNode("ReduceSum", 12, [x], {"axes": [0, 2], "keepdims": 0}),
        OldNode("ReduceSum", 7, [x]),
    ]


def _over_axes() -> list[OldNode]:
    x = _reals(2, 3, 4, 2)
    return [
        OldNode(name, opset, [x], {} if axis is None else {"axis": axis})
        for name in ("Hardmax", "LogSoftmax", "Softmax")
        for opset, axis in ((7, None), (12, 0), (11, 2), (12, 3), (12, -1), (11, -3))
    ]


def _resized() -> list[OldNode]:
    x, steep = _reals(1, 2, 4, 6), np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5) ** 2
    up, down, both = (_floats(1, 1, *item) for item in ((2, 3), (0.5, 0.6), (1.5, 0.5)))
    return [
        *(OldNode("Upsample", 7, [x], {"mode": m, "scales": [1.0, 1, 2, 3]}) for m in _MODES),
        *(OldNode("Upsample", 9, [x, up], {"mode": m}) for m in _MODES),
        OldNode("Upsample", 9, [x, up], {}, fed=2),
        *(OldNode("Resize", 10, [x, s], {"mode": m}) for m in _MODES for s in (up, down, both)),
        OldNode("Resize", 10, [steep, both], {}, fed=2),
        OldNode("Resize", 10, [steep, _floats(1, 1, 1.7, 2.3)], {"mode": "linear"}),
        *(
            OldNode("Resize", 11, [steep, _floats(), scales], {**_FOR_NN, "nearest_mode": "floor"})
            for scales in (up, down, both)
        ),
        OldNode("Resize", 12, [steep, _floats(), up], {"mode": "linear"}),
    ]


_MODES = ("nearest", "linear")
_FOR_NN = {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}


def _moved() -> list[OldNode]:
    x = _reals(2, 3, 4)
    y = _reals(1, 2, 1, 5)
    return [
        OldNode("Clip", 10, [x], {"min": -0.3, "max": 0.6}),
        OldNode("Clip", 7, [x], {"max": 0.5}),
        OldNode("Clip", 10, [x.astype(np.float16)], {"min": 0.25}),
        OldNode("Clip", 10, [x]),
        OldNode("Dropout", 7, [x], {"ratio": 0.5}),
        OldNode("Dropout", 10, [x], {"ratio": 0.5}),
        OldNode("Pad", 10, [x], {"pads": [0, 1, 2, 1, 0, 0], "value": 1.5}),
        OldNode("Pad", 7, [x], {"pads": [0, 1, 2, 0, 0, 1]}),
        OldNode("Pad", 10, [x], {"pads": [0, 1, 2, 1, 0, 0], "mode": "reflect"}),
        OldNode("Pad", 10, [x.astype(np.float64)], {"pads": [1] * 6, "mode": "edge"}),
        OldNode("Slice", 9, [x], {"starts": [0, -3], "ends": [1, 2**31 - 1], "axes": [0, 2]}),
        OldNode("Slice", 7, [x], {"starts": [0, 1], "ends": [2, -1]}),
        OldNode("Split", 12, [x], {"axis": 2, "split": [1, 3]}, results=2),
        OldNode("Split", 12, [x], {"axis": 2}, results=2),
        OldNode("Split", 17, [x], {"axis": 1}, results=3),
        OldNode("Split", 7, [x], {"split": [1, 1]}, results=2),
        OldNode("Squeeze", 12, [y], {"axes": [0, 2]}),
        OldNode("Squeeze", 7, [y]),
        OldNode("TopK", 9, [x], {"k": 2}, results=2),
        OldNode("TopK", 7, [x], {"k": 1, "axis": 1}, results=2),
        OldNode("Unsqueeze", 12, [x], {"axes": [0, -1]}),
        OldNode("Unsqueeze", 7, [x], {"axes": [1, 3]}),
        OldNode("Scatter", 9, [x, np.array([[[1, 0, 2, 1]]]), _reals(1, 1, 4)], {"axis": 1}, fed=3),
        OldNode("Scatter", 10, [x, np.array([[[1, 0, 1, 1]]]), _reals(1, 1, 4)], {}),
    ]


def _others() -> list[OldNode]:
    x = _reals(2, 4, 3, 3)
    of_elements = [np.abs(_reals(4, 3, 3)) + offset for offset in (0.1, 0, 0, 0.5)]
    of_channels = [np.abs(_reals(4)) + offset for offset in (0.1, 0, 0, 0.5)]
    grid, waves = np.clip(_reals(1, 4, 5, 2), -1.2, 1.2), _reals(2, 6, 4, 1)
    rois = [_floats(0, 0, 2, 3, 1, 1, 6, 6).reshape(2, 4), np.array([0, 0])]
    size = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    return [
        OldNode("BatchNormalization", 7, [x, *of_elements], {"spatial": 0, "epsilon": 1e-3}),
        OldNode("BatchNormalization", 8, [x, *of_channels], {"spatial": 1}),
        OldNode("BatchNormalization", 13, [x, *of_channels], {"momentum": 0.5}),
        *(
            OldNode("GridSample", opset, [_reals(1, 2, 4, 4), grid], attributes, fed=2)
            for opset in (16, 19)
            for attributes in ({}, {"mode": "bicubic"}, {"mode": "nearest"})
        ),
        OldNode("DFT", 17, [waves]),
        OldNode("DFT", 19, [waves], {"axis": 2, "onesided": 1}),
        OldNode("DFT", 17, [_reals(2, 6, 4, 2), np.array(5)], {"axis": 1, "inverse": 1}),
        OldNode("RoiAlign", 10, [_reals(1, 2, 8, 8), *rois], size, fed=3),
        OldNode("RoiAlign", 15, [_reals(1, 2, 8, 8), *rois], {**size, "mode": "max"}),
    ]


CASES = [*_reductions(), *_over_axes(), *_resized(), *_moved(), *_others()]
