"""Products of two computed matrices: numpy = te = loop IR = machine = onnxruntime."""

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import daedal
from bench.correctness.rtl_launches import rtl_device
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.common.errors import ModelError, ScheduleError
from daedal.compiler import te
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.intrinsics import accumulator_dtype, element_dtype
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run, run_all
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.link import link
from daedal.compiler.link.constants import parameter_bytes, weight_bytes
from daedal.compiler.ops.accelerator.matmul.matmul import matmul_template
from daedal.compiler.ops.matmul import matmul
from daedal.compiler.tir import interpreter
from daedal.isa.numerics import requantize
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from tests.compiler.graph.qdq_models import passes
from tests.support.accelerator import BOUNDS, memory_of, micro_variant, run_blocked, spec_of

TINY = load_variant("tiny")
MICRO = micro_variant()


def check_product(
    variant: Variant,
    rng: np.random.Generator,
    images: int,
    depth: int,
    pixels: tuple[int, int],
    columns: int,
    zero_points: tuple[int, int],
    interpret: bool = True,
    *,
    share: int = 1,
    by_pixel: bool = False,
) -> None:
    """Sizes but `pixels` count blocks; the reference is numpy on whole matrices.

    An image of b serves `share` images of a. With `by_pixel`, every pixel has its own parameters.
    """
    array, lanes, rows_of_b = variant.array, variant.array.block_in, variant.array.block_out
    parts = lanes // rows_of_b
    limit = 1 << (array.input_bits - 1)
    za, zb = zero_points
    left = rng.integers(-limit, limit, (images * share, depth, *pixels, lanes))
    right = rng.integers(-limit, limit, (images, depth, columns * lanes, lanes))
    shift = 17 + int(np.log2(limit * limit * np.sqrt(depth * lanes) / 150))
    images *= share
    count = images * pixels[0] * pixels[1] if by_pixel else 1
    rows = np.tile([0, 100_001, shift], (count, 1))
    if by_pixel:
        rows[:, 0] = rng.integers(-1000, 1000, count)
        rows[:, 1] -= rng.integers(0, 50_000, count)
    sums = np.einsum("ikhwl,iknl->inhw", left - za, np.repeat(right - zb, share, axis=0))
    places = rows.reshape(images, 1, *pixels, 3) if by_pixel else rows[0]
    results = requantize(
        sums,
        places[..., 0],
        places[..., 1],
        places[..., 2],
        BOUNDS.zero_point,
        BOUNDS.low,
        BOUNDS.high,
    ).reshape(images, columns, parts, rows_of_b, *pixels, 1)
    rows[:, 0] += depth * lanes * za * zb

    kind = element_dtype(array.input_bits)
    (factor, num_rows), column = correction(zb), correction(za)
    arrays = {
        "a": left.reshape(images, depth, *pixels, 1, 1, lanes).astype(kind),
        "b": right.reshape(-1, depth, columns * parts, rows_of_b, lanes).astype(kind),
        "factor": np.full((1, rows_of_b, lanes), factor, dtype=kind),
        "params": np.repeat(rows[:, None], rows_of_b, axis=1),
    }
    operands = [te.placeholder(v.shape, v.dtype.name, name) for name, v in arrays.items()]
    y = matmul(
        *operands,
        num_blocks=columns * parts,
        parts=parts,
        num_rows=num_rows,
        column=column,
        bounds=BOUNDS,
        accumulator=accumulator_dtype(variant),
    )
    expected = results.transpose(0, 1, 4, 5, 2, 6, 3)
    (formula,) = te.evaluate_tensors([y], arrays)
    np.testing.assert_array_equal(formula, expected)
    original = te.create_prim_func(operands, [y], "product")
    scheduled = matmul_template(original, variant).schedule().func
    for func in (original, scheduled) if interpret else ():
        np.testing.assert_array_equal(interpreter.run(func, arrays)["y"], expected)
    bits = array.input_bits
    linked = link(
        [emit_segment(scheduled, variant)],
        variant,
        constants={
            "factor": weight_bytes(variant, arrays["factor"]),
            "params": parameter_bytes(variant, arrays["params"]),
        },
        inputs=[
            spec_of("a", arrays["a"].shape, bits),
            spec_of("b", (len(right), depth, columns * lanes, 1, 1, 1, lanes), bits),
        ],
        outputs=[spec_of("y", y.shape, bits)],
    )
    verify(linked.program)
    found = run_blocked(linked.program, arrays)["y"]
    np.testing.assert_array_equal(found, memory_of(expected, variant))


ZERO_POINTS = st.sampled_from([-128, -7, 0, 1, 127])


@settings(max_examples=8)
@given(
    st.sampled_from([TINY, MICRO]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.tuples(st.integers(1, 4), st.integers(1, 3)),
    st.integers(1, 3),
    st.tuples(ZERO_POINTS, ZERO_POINTS),
    st.sampled_from([1, 1, 3]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_every_level(variant, images, depth, pixels, columns, zero_points, share, by_pixel, seed):
    rng = np.random.default_rng(seed)
    sizes = (images, depth, pixels, columns)
    try:
        check_product(variant, rng, *sizes, zero_points, share=share, by_pixel=by_pixel)
    except ScheduleError as error:
        assume("one row of a matrix product must fit" not in str(error))
        raise


@pytest.mark.parametrize("name", ["tiny", "vta", "wide", "int16", "ecp5"])
def test_every_variant(name, rng):
    check_product(
        load_variant(name), rng, 2, 5, (13, 3), 3, (-128, 100), False, share=2, by_pixel=True
    )


def test_a_row_that_fits_nowhere_is_refused(rng):
    with pytest.raises(
        ScheduleError,
        match=r"one row of a matrix product must fit scratchpad 'inp' \(512 bytes\) and one block "
        r"of the other operand 'wgt' \(2048\); they have 520 elements in a row; use a variant",
    ):
        check_product(MICRO, rng, 1, 65, (1, 1), 1, (0, 0))


def product_model(
    rng: np.random.Generator,
    batch: tuple[int, ...],
    sizes: tuple[int, int, int],
    transposed: bool,
    dtype: str,
    zero_points: tuple[int, int],
) -> onnx.ModelProto:
    """(M, K) times (K, N), or times (N, K) behind a Transpose."""
    rows, columns, depth = sizes
    model = QdqModel()
    a = model.input("a", (*batch, rows, depth))
    b = model.input("b", (*batch, columns, depth) if transposed else (*batch, depth, columns))
    a = model.requantized(a, 0.02, zero_points[0], dtype, output="a_q")
    b = model.requantized(b, 0.03, zero_points[1], dtype, output="b_q")
    if transposed:
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        b = model.op("Transpose", b, perm=order)
    scale = 0.02 * 0.03 * np.sqrt(depth) * 74 * 74 / 40
    y = model.op("MatMul", a, b)
    zero_point = 120 if dtype == "uint8" else -5
    return model.model(model.requantized(y, scale, zero_point, dtype, output="y_q"))


@pytest.mark.parametrize("variant", ["tiny", "vta"])
@pytest.mark.parametrize(
    ("batch", "transposed", "dtype", "zero_points"),
    [
        ((), True, "int8", (3, -128)),
        ((3,), False, "uint8", (131, 0)),
        ((2, 3), True, "int8", (0, 0)),
    ],
    ids=["matrices", "uint8", "heads"],
)
def test_models_against_onnxruntime(variant, batch, transposed, dtype, zero_points, rng):
    model = product_model(rng, batch, (9, 16, 32), transposed, dtype, zero_points)
    artifact = daedal.compile(model.SerializeToString(), variant)
    assert [layer.op for layer in artifact.layers] == ["q_matmul"]
    assert artifact.layers[0].macs == int(np.prod(batch)) * 9 * 16 * 32
    x = {
        item.name: rng.uniform(-2, 2, [dim.dim_value for dim in item.type.tensor_type.shape.dim])
        for item in model.graph.input
    }
    x = {name: value.astype(np.float32) for name, value in x.items()}
    graph = processor_graph(model.SerializeToString(), artifact.program.variant)
    assert all(item.largest <= 1 for item in compare_operators(model, graph, x))
    (output,) = graph.outputs
    found = daedal.simulate(artifact, x).outputs[output]
    np.testing.assert_array_equal(found, run_all(graph, x)[output])
    (expected,) = run_onnxruntime(model, x)
    assert len(np.unique(expected)) > 30


def attention(
    rng: np.random.Generator, *, second: bool, size: tuple[int, int] = (4, 8)
) -> onnx.ModelProto:
    """Queries times keys, both from 1x1 convolutions of a map; and times values."""
    model = QdqModel()
    x = model.requantized(model.input("x", (1, 32, *size)), 0.02, 3, output="x_q")

    def projected(name: str, zero_point: int) -> str:
        w = model.weights(rng.integers(-127, 128, (64, 32, 1, 1), dtype=np.int8), 0.01)
        y = model.op("Conv", x, w, kernel_shape=[1, 1])
        y = model.requantized(y, 0.2, zero_point, output=f"{name}_q")
        return model.op("Reshape", y, tokens)

    tokens = model.constant(np.array([1, 64, size[0] * size[1]], dtype=np.int64))
    query = model.op("Transpose", projected("query", 5), perm=[0, 2, 1])
    scores = model.op("MatMul", query, projected("key", -9))
    y = model.requantized(scores, 9.0, -5, output="scores_q")
    if second:
        values = model.op("Transpose", projected("value", 2), perm=[0, 2, 1])
        y = model.requantized(model.op("MatMul", y, values), 90.0, 0, output="y_q")
    return model.model(y)


@pytest.mark.parametrize("size", [(4, 8), (7, 7)])
def test_scores_of_attention_need_no_transpose(size, rng):
    """Both maps have the summed axis as channels already, and the keys are padded as they are
    computed: one launch, and no copy."""
    model = attention(rng, second=False, size=size)
    artifact = daedal.compile(model.SerializeToString(), "vta")
    assert [layer.op for layer in artifact.layers] == ["q_conv2d", "q_conv2d", "q_matmul"]
    x = {"x": rng.uniform(-2.5, 2.5, (1, 32, *size)).astype(np.float32)}
    graph = processor_graph(model.SerializeToString(), artifact.program.variant)
    assert all(item.largest <= 1 for item in compare_operators(model, graph, x))
    (output,) = graph.outputs
    found = daedal.simulate(artifact, x).outputs[output]
    np.testing.assert_array_equal(found, run_all(graph, x)[output])


@pytest.mark.parametrize("size", [(4, 8), (3, 5)])
def test_values_are_transposed_by_a_product(size, rng):
    """A times B: the values' channels become pixels in a product with the identity."""
    model = attention(rng, second=True, size=size)
    artifact = daedal.compile(model.SerializeToString(), "vta")
    assert [layer.op for layer in artifact.layers].count("q_matmul") == 3
    verify(artifact.program)
    x = {"x": rng.uniform(-2.5, 2.5, (1, 32, *size)).astype(np.float32)}
    graph = processor_graph(model.SerializeToString(), artifact.program.variant)
    assert all(item.largest <= 1 for item in compare_operators(model, graph, x))
    (output,) = graph.outputs
    found = daedal.simulate(artifact, x).outputs[output]
    np.testing.assert_array_equal(found, run_all(graph, x)[output])
    assert len(np.unique(found)) > 50


def test_other_transposes_run_on_the_host(rng):
    """Channels that change places with rows alone; rows and columns are moved by `q_permute`."""
    model = QdqModel()
    x = model.requantized(model.input("x", (1, 8, 8, 5)), 0.02, 3)
    for perm in ([0, 2, 1, 3], [0, 1, 2, 3]):
        w = model.weights(rng.integers(-127, 128, (8, 8, 1, 1), dtype=np.int8), 0.01)
        y = model.op("Conv", x, w, kernel_shape=[1, 1])
        x = model.op("Transpose", model.requantized(y, 0.1, 0), perm=perm)
    artifact = daedal.compile(model.model(x).SerializeToString(), "vta", host=None)
    # The second one changes nothing: it is a view of what leaves.
    assert [item.why for item in artifact.placements if item.op == "Transpose"] == [
        "LOAD and STORE move whole rows and cannot transpose",
        "it only tells in which order the host reads the elements",
    ]
    assert len(artifact.launches) == 2
    data = {"x": rng.normal(size=(1, 8, 8, 5)).astype(np.float32)}
    (found,) = daedal.simulate(artifact, data).outputs.values()
    graph = load_onnx(model.model(x).SerializeToString())
    (expected,) = run(passes(graph), data).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 5)])
@pytest.mark.parametrize("sizes", [(9, 16, 24), (9, 20, 32), (1, 1, 1), (7, 37, 19)])
def test_partial_blocks(sizes, zero_points, rng):
    """Channels and columns that fill no block: maps are padded, the bytes are the reference's."""
    model = product_model(rng, (2,), sizes, True, "int8", zero_points)
    artifact = daedal.compile(model.SerializeToString(), "vta")
    x = {
        "a": rng.uniform(-2, 2, (2, sizes[0], sizes[2])).astype(np.float32),
        "b": rng.uniform(-2, 2, (2, sizes[1], sizes[2])).astype(np.float32),
    }
    graph = processor_graph(model.SerializeToString(), artifact.program.variant)
    assert all(item.largest <= 1 for item in compare_operators(model, graph, x))
    (output,) = graph.outputs
    found = daedal.simulate(artifact, x).outputs[output]
    np.testing.assert_array_equal(found, run_all(graph, x)[output])


@pytest.mark.parametrize("variant", ["vta", "batch4"])
@pytest.mark.parametrize(
    "batches",
    [
        ((2, 3), ()),
        ((), (3,)),
        ((2, 3), (2, 1)),
        ((1, 3), (2, 3)),
        ((3, 1, 2), (2, 1)),
        ((2, 1, 3), (1, 4, 1)),
        ((1, 2), (3, 2)),
    ],
    ids=str,
)
def test_batches_that_broadcast(variant, batches, rng):
    """Axes of one operand alone are rows or columns of the product."""
    model = QdqModel()
    shapes = {"a": (*batches[0], 5, 24), "b": (*batches[1], 24, 7)}
    scales = {"a": 0.02, "b": 0.03}
    operands = [
        model.requantized(model.input(name, shape), scales[name], 3, output=f"{name}_q")
        for name, shape in shapes.items()
    ]
    y = model.requantized(model.op("MatMul", *operands), 0.4, -5, output="y_q")
    data = model.model(y).SerializeToString()
    artifact = daedal.compile(data, variant, host=None, cpu_levels=())
    # On `vta`, others fill up the blocks.
    assert [layer.op for layer in artifact.layers].count("q_matmul") == 1
    x = {name: rng.uniform(-2, 2, shape).astype(np.float32) for name, shape in shapes.items()}
    graph = processor_graph(data, artifact.program.variant)
    (output,) = graph.outputs
    expected = run_all(graph, x)[output]
    (real,) = run_onnxruntime(data, x)
    assert expected.shape == real.shape
    assert np.abs(expected - real).max() <= 0.4 * 1.01
    found = daedal.simulate(artifact, x).outputs[output]
    np.testing.assert_array_equal(found, expected)


def rows_case(variant, sizes, zero_points, rng):
    """A compiled product, its inputs, and the output's name and value as the graph has it."""
    model = product_model(rng, (2,), sizes, sizes[0] > 7, "int8", zero_points).SerializeToString()
    artifact = daedal.compile(model, variant, host=None, cpu_levels=())
    assert [layer.op for layer in artifact.layers] == ["q_matmul"]
    verify(artifact.program)
    x = {
        item.name: rng.uniform(-2, 2, [dim.dim_value for dim in item.type.tensor_type.shape.dim])
        for item in onnx.load_from_string(model).graph.input
    }
    x = {name: value.astype(np.float32) for name, value in x.items()}
    graph = processor_graph(model, artifact.program.variant)
    assert all(
        item.largest <= 1 for item in compare_operators(onnx.load_from_string(model), graph, x)
    )
    (output,) = graph.outputs
    return artifact, x, output, run_all(graph, x)[output]


@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 5)])
@pytest.mark.parametrize("sizes", [(9, 16, 24), (50, 21, 33), (1, 1, 1), (7, 37, 19)])
@pytest.mark.parametrize("variant", ["batch4", "smallest"])
def test_rows_fill_the_batch(variant, sizes, zero_points, rng):
    """An array with a batch takes several rows of one matrix at a time, which the host arranges."""
    artifact, x, output, expected = rows_case(variant, sizes, zero_points, rng)
    found = daedal.simulate(artifact, x).outputs[output]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 5)])
@pytest.mark.parametrize("variant", ["batch4", "smallest"])
def test_rows_fill_the_batch_on_the_rtl(variant, zero_points, rng):
    artifact, x, output, expected = rows_case(variant, (9, 16, 24), zero_points, rng)
    device = rtl_device(artifact.program.variant)
    found = daedal.simulate(artifact, x, device=device).outputs[output]
    np.testing.assert_array_equal(found, expected)


def test_sums_that_leave_the_accumulators_are_refused(rng):
    model = product_model(rng, (), (1, 16, 1 << 16), True, "int8", (0, 0))
    with pytest.raises(
        ModelError,
        match=r"sums of products must stay below 2\*\*31, but they may reach \d+ \(.*\); split the "
        "layer or use a variant with wider accumulators",
    ):
        daedal.compile(model.SerializeToString(), "vta")
