"""`compare_operators` where the graph's tensors are not the model's."""

import numpy as np
import onnx

from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.isa.variant import load_variant

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
input (float[1,4,6,6] x) => (uint8[1,4,3,3] pooled, uint8[1,144] flat)
<float s = {0.0625}, uint8 z = {128}, int64[2] shape = {1, 144}> {
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    view = Reshape (d, shape)
    flat = QuantizeLinear (view, s, z)
    most = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)
    pooled = QuantizeLinear (most, s, z)
}
"""

BRANCHES = """
<ir_version: 8, opset_import: ["" : 17]>
branches (float[1,4,6] x) => (int8[4,6] squeezed, int8[1,4,3] pooled)
<float s = {0.0625}, float t = {0.125}, int8 z = {0}, int64[1] axis = {0}> {
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    r = Relu (d)
    a = QuantizeLinear (r, t, z)
    b = DequantizeLinear (a, t, z)
    less = Squeeze (b, axis)
    squeezed = QuantizeLinear (less, t, z)
    most = MaxPool <kernel_shape = [2], strides = [2]> (b)
    pooled = QuantizeLinear (most, t, z)
}
"""


def test_views_of_other_branches(rng: np.random.Generator) -> None:
    """Both branches begin at one view of `a`; the pool is not compared from the other's end on."""
    model = onnx.parser.parse_model(BRANCHES)
    graph = processor_graph(model.SerializeToString(), load_variant("tiny"))
    x = rng.uniform(-4, 4, (1, 4, 6)).astype(np.float32)
    found = {item.output: item.largest for item in compare_operators(model, graph, {"x": x})}
    assert found == {"a": 0, "pooled": 0}


def test_an_operator_reads_int8_where_the_model_has_uint8(rng: np.random.Generator) -> None:
    """The pool is compared from `q` on, though a view of the same integers has a name, too."""
    model = onnx.parser.parse_model(MODEL)
    graph = processor_graph(model.SerializeToString(), load_variant("tiny"))
    x = rng.uniform(-4, 4, (1, 4, 6, 6)).astype(np.float32)
    assert [item.largest for item in compare_operators(model, graph, {"x": x})] == [0]
