"""PyTorch's MNIST network, quantized by onnxruntime: one program, and the answers of its float
ancestor's quantized form."""

from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.check import integer_graph, integer_layers
from daedal.compiler.graph import run
from daedal.isa.verifier import verify

NUM_IMAGES = 100


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_answers(shared: Path, name: str) -> None:
    folder = shared / "models" / "mnist_pytorch_cnn"
    variant = daedal.load_variant(name)
    graph = integer_graph(folder / "model_qdq.onnx", variant)
    # Without LogSoftmax, whose answers for logits this far apart are infinite on the host.
    *_, (_, _, logits) = integer_layers(graph)
    artifact = daedal.compile(folder / "model_qdq.onnx", variant, to_tensors=[logits])
    verify(artifact.program)
    operators = [layer.op for layer in artifact.layers]
    assert operators == ["q_conv2d", "q_max_pool", "q_conv2d", "q_max_pool", "q_conv2d", "q_conv2d"]

    (source,) = graph.inputs
    images = np.load(folder / "inputs.npz")["x_u8"][:NUM_IMAGES].astype(np.float32)
    (found,) = daedal.simulate(artifact, {source: images}).tensors.values()
    found = found.reshape(NUM_IMAGES, -1)
    for image, values in zip(images[:3], found, strict=False):
        expected = run(graph, {source: image[None]}, [logits])[logits]
        np.testing.assert_array_equal(values, expected.reshape(-1))
    answers = np.load(folder / "outputs.npz")["y_qdq_onnx"][:NUM_IMAGES].argmax(axis=1)
    assert np.count_nonzero(found.argmax(axis=1) == answers) >= 98
