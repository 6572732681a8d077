"""`Network`: what is known of tensors of a network that is being rewritten."""

import numpy as np
import pytest

from daedal.compiler.quantization.network import Network
from tests.compiler.graph.qdq_models import QdqModel


@pytest.mark.parametrize(("size", "known"), [(4096, (1, (3, 4))), (4097, None)])
def test_shapes_follow_from_constants_of_up_to_4096_elements(size, known):
    """Larger ones are weights; shape inference is told their types alone, and copies no values."""
    maker = QdqModel(opset=15)
    table = maker.constant(np.resize(np.array([3, 4]), size), "table")
    shape = maker.op("Gather", table, maker.constant(np.array([0, 1])))
    maker.op("Reshape", maker.input("x", (2, 6)), shape, output="y")
    types = Network(maker.model("y")).types()
    assert types["table"] == (7, (size,))
    assert types.get("y") == known
