"""Every variant computes layers: int8 ones the digits network, the others operators of their own.

On the RTL, `make test` takes the two variants whose simulators the random programs build anyway;
the slow tests take all.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.correctness.random_runs import every_variant
from bench.correctness.rtl_launches import rtl_device
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import processor_graph
from daedal.compiler.graph import run_all
from daedal.compiler.ops.requantize import Bounds
from daedal.isa.numerics import integer_range, requantize
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from examples.digits.data import demo_images
from tests.support.accelerator import Compiled, memory_of, run_blocked
from tests.support.accelerator_operators import Case, conv_case

MODEL = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"
OUTPUT = "fc0_q"
INT8 = [name for name, v in every_variant().items() if v.array.input_bits == 8]
OTHERS = [name for name in every_variant() if name not in INT8]
QUICK = ("tiny", "vta", "attention", "smallest", "mixed")
"""Among them the least and the most that a variant can have; the others are left to the shards."""
PAD_VALUE = 5
"""What `conv_case` pads with."""


@cache
def digits(name: str) -> Artifact:
    return daedal.compile(MODEL, every_variant()[name])


@pytest.mark.heavy(4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in INT8]
)
def test_digits(name: str) -> None:
    """The verified program gives the integer graph's logits."""
    verify(digits(name).program)
    images, labels = demo_images(6)
    result = daedal.simulate(digits(name), {"input": images})
    graph = processor_graph(MODEL, every_variant()[name])
    expected = [run_all(graph, {"input": image[None]})[OUTPUT] for image in images]
    found = result.tensors[OUTPUT]
    np.testing.assert_array_equal(found, np.stack(expected).reshape(found.shape))
    assert np.count_nonzero(result.outputs["probabilities"].argmax(axis=1) == labels) >= 5


def check_digits_on_rtl(name: str) -> None:
    images, _ = demo_images(2)
    expected = daedal.simulate(digits(name), {"input": images})
    device = rtl_device(every_variant()[name])
    found = daedal.simulate(digits(name), {"input": images}, device=device)
    np.testing.assert_array_equal(found.tensors[OUTPUT], expected.tensors[OUTPUT])


@pytest.mark.rtl
@pytest.mark.parametrize(
    "name", ["tiny", pytest.param("mixed", marks=pytest.mark.xdist_group("mixed-rtl"))]
)
def test_digits_on_rtl(name: str) -> None:
    check_digits_on_rtl(name)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*INT8} - {"tiny", "mixed"}))
def test_digits_on_rtl_of_every_other_variant(name: str) -> None:
    check_digits_on_rtl(name)


# (input shape in blocks, output blocks, kernel, strides, pads), the last two matrix products
OPERATORS = {
    "3x3": ((1, 2, 5, 6), 2, (3, 3), (1, 1), (1, 1, 1, 1)),
    "strided": ((1, 3, 8, 7), 1, (3, 2), (2, 2), (0, 1, 1, 0)),
    "matrix": ((1, 5, 1, 1), 3, (1, 1), (1, 1), (0, 0, 0, 0)),
    "matrices": ((3, 2, 1, 1), 4, (1, 1), (1, 1), (0, 0, 0, 0)),
}


def operator(name: str, which: str) -> tuple[Case, Bounds]:
    """An operator at the precision of the variant; its parameters spread results over the range."""
    variant = load_variant(name)
    rng = np.random.default_rng(31)
    low, high = integer_range(variant.array.output_bits)
    bounds = Bounds(1, low + 1, high)
    case = conv_case(variant, rng, *OPERATORS[which], bounds=bounds)
    sums = convolution(case, *OPERATORS[which][3:])
    bits = variant.units.multiplier_bits
    params = case.arrays["params"]
    params[..., 1] = rng.integers(1 << (bits - 1), 1 << bits, params.shape[:-1])
    wanted = high / 2 / max(1.0, float(sums.std()))
    params[..., 2] = bits - 1 - round(np.log2(wanted))
    return case, bounds


def convolution(
    case: Case, strides: tuple[int, int], pads: tuple[int, int, int, int]
) -> np.ndarray:
    """Sums of products in numpy: (NB, OB, OH, OW, 1, block)."""
    x, w = (case.arrays[key].astype(np.int64) for key in ("x", "w"))
    x = x.squeeze(4)  # one vector of channels in a block: block_in equals block_out here
    top, left, bottom, right = pads
    space = ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0), (0, 0))
    x = np.pad(x, space, constant_values=PAD_VALUE)
    height, width = w.shape[2:4]
    rows = (x.shape[2] - height) // strides[0] + 1
    cols = (x.shape[3] - width) // strides[1] + 1
    total = np.zeros((x.shape[0], w.shape[0], rows, cols, x.shape[4], w.shape[4]), dtype=np.int64)
    for i in range(height):
        for j in range(width):
            tap = x[:, :, i : i + rows * strides[0] : strides[0]]
            tap = tap[:, :, :, j : j + cols * strides[1] : strides[1]]
            total += np.einsum("ncyxbi,pcoi->npyxbo", tap, w[:, :, i, j])
    return total


def expected_bytes(case: Case, which: str, bounds: Bounds) -> np.ndarray:
    """What the machine is to leave in memory, by numpy alone."""
    sums = convolution(case, *OPERATORS[which][3:])
    bias, multiplier, shift = (case.arrays["params"][..., k][:, None, None, None] for k in range(3))
    values = requantize(sums, bias, multiplier, shift, bounds.zero_point, bounds.low, bounds.high)
    low, high = integer_range(case.variant.array.output_bits)
    assert values.std() > (high - low) / 20, "results must spread"
    return memory_of(values, case.variant)


def check_operator(name: str, which: str) -> Compiled:
    case, bounds = operator(name, which)
    compiled = case.check(interpret=False)
    np.testing.assert_array_equal(compiled.result, expected_bytes(case, which, bounds))
    return compiled


@pytest.mark.parametrize("which", OPERATORS)
@pytest.mark.parametrize("name", OTHERS)
def test_other_precisions(name: str, which: str) -> None:
    check_operator(name, which)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_precisions_on_rtl(name: str) -> None:
    for which in OPERATORS:
        case, bounds = operator(name, which)
        device = rtl_device(case.variant)
        found = run_blocked(check_operator(name, which).program, case.arrays, device)["y"]
        np.testing.assert_array_equal(found, expected_bytes(case, which, bounds))
