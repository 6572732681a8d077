"""Small models for processors, the seeds of mutations: operators that take indices, lengths and
positions from data, float layers, sequences, branches and loops."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["CPU_MODEL_NAMES", "cpu_model"]

Rng = np.random.Generator
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Input = tuple[str, int, Sequence[int]]


def _model(
    inputs: Sequence[Input], nodes: Sequence[onnx.NodeProto], outputs: str, **constants: object
) -> onnx.ModelProto:
    """Nodes in opset 21, with outputs of any shape."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(*item) for item in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    for value in model.graph.output:
        value.type.tensor_type.shape.SetInParent()
    return model


def _node(op_type: str, inputs: str, outputs: str, **attrs: object) -> onnx.NodeProto:
    """Names are separated by blanks; ``-`` is none."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attrs)


def _gathers(rng: Rng) -> onnx.ModelProto:
    """Reads where integers of an input say."""
    inputs = [("x", FLOAT, [4, 5]), ("i", INT64, [2, 3]), ("j", INT64, [4, 2])]
    nodes = [
        _node("Gather", "x i", "a", axis=1),
        _node("GatherElements", "x j", "b", axis=1),
        _node("Reshape", "i pairs", "i2"),
        _node("GatherND", "x i2", "c"),
        _node("OneHot", "i depth values", "d"),
        _node("Gather", "table i", "e"),
    ]
    return _model(
        inputs,
        nodes,
        "a b c d e",
        pairs=np.array([3, 2]),
        depth=np.array(4),
        values=np.array([0.0, 1.0], np.float32),
        table=rng.normal(size=(7, 3)).astype(np.float32),
    )


def _scatters(_rng: Rng) -> onnx.ModelProto:
    """Writes where integers of an input say."""
    inputs = [("x", FLOAT, [4, 5]), ("i", INT64, [2, 2]), ("u", FLOAT, [2, 2]), ("v", FLOAT, [2])]
    nodes = [
        _node("ScatterElements", "x i u", "a", axis=1),
        _node("ScatterElements", "x i u", "b", axis=0, reduction="add"),
        _node("ScatterND", "x i v", "c"),
        _node("ScatterND", "x i v", "d", reduction="max"),
        _node("Add", "c d", "e"),
    ]
    return _model(inputs, nodes, "a b e")


def _sequences(rng: Rng) -> onnx.ModelProto:
    """Recurrent layers with lengths from an input, and what else takes positions."""
    inputs = [("x", FLOAT, [4, 2, 3]), ("n", TensorProto.INT32, [2]), ("m", INT64, [2])]
    weights = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in {
            "w": (1, 8, 3),
            "r": (1, 8, 2),
            "gw": (2, 6, 3),
            "gr": (2, 6, 2),
        }.items()
    }
    nodes = [
        _node("LSTM", "x w r - n", "a h", hidden_size=2),
        _node("GRU", "x gw gr - n", "b", hidden_size=2, direction="bidirectional"),
        _node("ReverseSequence", "x m", "c", time_axis=0, batch_axis=1),
        _node("CumSum", "x axis", "d"),
        _node("TopK", "d k", "e f", axis=0),
        _node("Trilu", "c diagonal", "g"),
    ]
    return _model(
        inputs,
        nodes,
        "a h b e f g",
        axis=np.array(0),
        k=np.array([2]),
        diagonal=np.array(1),
        **weights,
    )


def _float_layers(rng: Rng) -> onnx.ModelProto:
    """A float network with a grid and a resize."""
    inputs = [("x", FLOAT, [1, 3, 6, 6]), ("grid", FLOAT, [1, 4, 4, 2])]
    nodes = [
        _node("Conv", "x w b", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        _node("Relu", "a", "r"),
        _node("Resize", "r - scales", "s", mode="linear"),
        _node("GridSample", "s grid", "g", mode="linear", padding_mode="reflection"),
        _node("MaxPool", "s", "p q", kernel_shape=[2, 2], strides=[2, 2]),
        _node("LayerNormalization", "g one", "n", axis=-1),
        _node("Flatten", "n", "f"),
        _node("Gemm", "f m", "y", transB=1),
        _node("Softmax", "y", "z"),
    ]
    return _model(
        inputs,
        nodes,
        "z p q",
        w=rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        b=rng.normal(size=4).astype(np.float32),
        scales=np.array([1, 1, 2, 2], np.float32),
        one=np.ones(4, np.float32),
        m=rng.normal(size=(5, 64)).astype(np.float32),
    )


def _dynamic(_rng: Rng) -> onnx.ModelProto:
    """Shapes that only a run knows, in operators that are interpreted."""
    inputs = [("x", FLOAT, [2, 6]), ("s", INT64, [2]), ("t", INT64, [1])]
    nodes = [
        _node("Slice", "x t end zero", "a"),
        _node("Relu", "a", "b"),
        _node("Tile", "x s", "c"),
        _node("Expand", "x s", "d"),
        _node("NonZero", "x", "e"),
        _node("Reshape", "x s", "f"),
        _node("Squeeze", "t", "stop"),
        _node("Range", "begin stop step", "g"),
        _node("ConstantOfShape", "t", "h"),
    ]
    constants = {"end": [4], "zero": [0], "begin": 0, "step": 1}
    arrays = {name: np.array(value) for name, value in constants.items()}
    return _model(inputs, nodes, "b c d e f g h", **arrays)


def _control(_rng: Rng) -> onnx.ModelProto:
    """A Loop whose count is an input, around a branch."""
    value = helper.make_tensor_value_info
    branches = {
        f"{kind}_branch": helper.make_graph(
            [_node(op_type, "v", f"{kind}_w")], kind, [], [value(f"{kind}_w", FLOAT, [3])]
        )
        for kind, op_type in (("then", "Neg"), ("else", "Tanh"))
    }
    body = helper.make_graph(
        [
            _node("ReduceMax", "v", "top", keepdims=0),
            _node("Less", "top zero", "low"),
            _node("If", "low", "w", **branches),
            _node("Identity", "going", "still"),
        ],
        "body",
        [value("number", INT64, []), value("going", BOOL, []), value("v", FLOAT, [3])],
        [value("still", BOOL, []), value("w", FLOAT, [3])],
    )
    nodes = [_node("Loop", "count - x", "y", body=body), _node("Exp", "y", "z")]
    return _model(
        [("x", FLOAT, [3]), ("count", INT64, [])], nodes, "z", zero=np.array(0, np.float32)
    )


_MAKERS: dict[str, Callable[[Rng], onnx.ModelProto]] = {
    "control": _control,
    "dynamic": _dynamic,
    "float_layers": _float_layers,
    "gathers": _gathers,
    "scatters": _scatters,
    "sequences": _sequences,
}

CPU_MODEL_NAMES = tuple(_MAKERS)


@cache
def cpu_model(name: str) -> bytes:
    """The serialized model `name`; always the same bytes."""
    rng = np.random.default_rng(CPU_MODEL_NAMES.index(name))
    return bytes(_MAKERS[name](rng).SerializeToString(deterministic=True))
