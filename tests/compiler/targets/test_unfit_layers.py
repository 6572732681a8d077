"""All layers that a variant cannot run are found in one run of the passes."""

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler import pipeline
from daedal.compiler.frontend import load_onnx
from daedal.isa.variant import load_variant

LAYERS = 16
VARIANTS = {
    "small scratchpad": load_variant("tiny").replace("narrow", inp_bytes=32),
    "another axis": load_variant("tiny"),
    "computed weights": load_variant("tiny"),
    "computed factors": load_variant("tiny").replace("wide_out", block_out=16, depthwise_taps=0),
}


def unfit_model(kind: str, rng: np.random.Generator) -> onnx.ModelProto:
    """`LAYERS` layers that do not fit, each before one that does."""
    maker = QdqModel()
    first = x = maker.requantized(maker.input("x", (1, 4, 4, 4)), 0.05, -3)

    def layer(x: str, w: str, **attrs: object) -> str:
        return maker.requantized(maker.op("Conv", x, w, **attrs), 0.05, -3)

    def weights(*shape: int) -> str:
        return maker.weights(rng.integers(-127, 127, shape).astype(np.int8), 0.01)

    for _ in range(LAYERS):
        if kind == "small scratchpad":
            x = layer(x, weights(4, 1, 3, 3), group=4, pads=[1] * 4)
        elif kind == "another axis":
            values = rng.integers(-127, 127, (4, 4, 1, 1)).astype(np.int8)
            x = layer(x, maker.weights(values, np.full(4, 0.01), axis=1))
        elif kind == "computed factors":
            x = maker.requantized(maker.op("MatMul", x, first), 0.05, -3)
        else:
            w = maker.op("Reshape", first, maker.constant(np.array([16, 4, 1, 1])))
            x = layer(layer(x, w), weights(4, 16, 1, 1))
        x = layer(x, weights(4, 4, 1, 1))
    return maker.model(x)


@pytest.mark.parametrize("kind", VARIANTS)
def test_two_runs_of_the_passes(kind: str, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    real = pipeline.lowering_passes

    def counted(*args, **options):
        runs.append(1)
        return real(*args, **options)

    monkeypatch.setattr(pipeline, "lowering_passes", counted)
    graph = load_onnx(unfit_model(kind, rng).SerializeToString())
    compiled = pipeline.compile_graph(graph, VARIANTS[kind], host=None)
    assert len(compiled.reasons) == LAYERS
    assert len(compiled.launches) >= LAYERS
    assert len(runs) <= 2
