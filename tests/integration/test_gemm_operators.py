"""The operators of the GEMM core beside the plain convolution, on the RTL: bytes and cycles."""

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.isa.variant import load_variant
from tests.compiler.graph.test_grouped_layout import grouped
from tests.compiler.graph.test_rewrite_first_layer import first_layer
from tests.compiler.ops.test_conv_transpose import transposed_model
from tests.compiler.ops.test_matmul import product_model
from tests.compiler.test_wide import stream_model

Shapes = dict[str, tuple[int, ...]]


def stream(rng: np.random.Generator) -> tuple[bytes, Shapes]:
    """A first layer: LOADs whose rows overlap in memory."""
    model = first_layer(rng, (1, 3, 23, 37), 10, (7, 5), strides=[2, 1], pads=[3, 2, 1, 2])
    return model, {"x": (1, 3, 23, 37)}


def groups(rng: np.random.Generator) -> tuple[bytes, Shapes]:
    """Groups of six channels: products of blocks that hold zeros between groups."""
    model = grouped(rng, (1, 24, 7, 6), 16, 4, pads=[1, 0, 1, 1])
    return model.model(model.nodes[-1].output[0]).SerializeToString(), {"x": (1, 24, 7, 6)}


def transposed(rng: np.random.Generator) -> tuple[bytes, Shapes]:
    """A transposed convolution: STOREs of every second row and every third column."""
    geometry = {
        "kernel": (4, 3),
        "strides": (2, 3),
        "pads": (1, 1, 0, 1),
        "dilations": (1, 2),
        "output_padding": (0, 1),
    }
    model = transposed_model(rng, (1, 11, 5, 6), 9, geometry)
    return model.SerializeToString(), {"x": (1, 11, 5, 6)}


def product(rng: np.random.Generator) -> tuple[bytes, Shapes]:
    """Two computed matrices: weights that are activations, rows that are all padding."""
    model = product_model(rng, (2,), (9, 16, 32), True, "int8", (3, -128))
    return model.SerializeToString(), {"a": (2, 9, 32), "b": (2, 16, 32)}


@pytest.mark.rtl
@pytest.mark.heavy(8)
@pytest.mark.parametrize("make", [stream, groups, transposed, product])
def test_operators_on_rtl(make, rng):
    """The functional simulator's bytes, in the cycles that the model counts."""
    model, shapes = make(rng)
    artifact = daedal.compile(model, "tiny")
    inputs = {key: rng.uniform(-2, 2, shape).astype(np.float32) for key, shape in shapes.items()}
    expected = daedal.simulate(artifact, inputs, device="timing")
    found = daedal.simulate(artifact, inputs, device=rtl_device(artifact.program.variant))
    (name,) = expected.tensors
    np.testing.assert_array_equal(found.tensors[name], expected.tensors[name])
    assert found.profiles[0].cycles == expected.profiles[0].cycles
    assert len(np.unique(found.tensors[name])) > 30


@pytest.mark.rtl
@pytest.mark.slow
def test_wide_results_on_rtl(rng):
    """Sums and products of 16 bits, which LOAD and STORE move as rows of accumulators."""
    variant = load_variant("tiny").replace(wide_requantize=True)
    artifact = daedal.compile(stream_model(rng, 21).SerializeToString(), variant, host=None)
    inputs = {"x": rng.integers(-128, 128, (3, 24)).astype(np.int8)}
    expected = daedal.simulate(artifact, inputs, device="timing")
    found = daedal.simulate(artifact, inputs, device=rtl_device(variant))
    np.testing.assert_array_equal(found.tensors["y"], expected.tensors["y"])
    assert found.profiles[0].cycles == expected.profiles[0].cycles
