"""`compare_operators` where the graph's tensors are not the model's."""

import numpy as np
import onnx

from daedal.integer_reference import compare_operators, processor_graph
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


def test_an_operator_reads_int8_where_the_model_has_uint8(rng: np.random.Generator) -> None:
    """The pool is compared from `q` on, though a view of the same integers has a name, too."""
    model = onnx.parser.parse_model(MODEL)
    graph = processor_graph(model.SerializeToString(), load_variant("tiny"))
    x = rng.uniform(-4, 4, (1, 4, 6, 6)).astype(np.float32)
    assert [item.largest for item in compare_operators(model, graph, {"x": x})] == [0]
