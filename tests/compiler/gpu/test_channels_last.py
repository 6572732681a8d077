"""Maps with their channels last: no kernel moves or pads one between two convolutions, and blocks
copy 16 bytes at a time."""

import numpy as np
import onnx
import pytest

from daedal.artifact.gpu_code import GpuCode
from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.gpu.build import build_gpu_code
from daedal.native.cache import NoCache
from daedal.runtime.gpu_program import GpuProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.compiler.gpu.test_precision import compared, cores, network, node, weights
from tests.support.gpu_code import product_kernels


def counts(code: GpuCode, *marks: str) -> list[tuple[int, ...]]:
    """Of instructions in the PTX of each kernel with products."""
    texts = [image.decode() for image in code.images["sm_80"]]
    return [
        tuple(text.count(mark) for mark in marks)
        for kernel, text in zip(code.kernels, texts, strict=True)
        if kernel in product_kernels(code)
    ]


COPIES = ("cp.async.cg", "cp.async.ca", "ldmatrix", "mma.sync")
"""Of 16 bytes, of fewer, and what multiplies."""


def chain(size: int = 9, outs: int = 64) -> onnx.ModelProto:
    """Two convolutions with pads."""
    return network(
        [
            node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["b"]),
            node("Conv", ["b", "v"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["y"]),
        ],
        (1, 32, size, size),
        w=weights(32, 32, 3, 3) / 4,
        v=weights(outs, 32, 3, 3) / 4,
    )


@pytest.mark.heavy(4)
def test_two_convolutions_are_a_kernel_each() -> None:
    """Pads are zeros that copies fill in; one kernel before them and one behind them move maps."""
    code = compared(chain(), "float16", "sm_80")
    assert cores(code) == ["float16", "float16"] and len(code.host.calls) == 4
    for large, small, loads, products in counts(code, *COPIES):
        assert large and not small and loads and products


@pytest.mark.heavy(2)
def test_groups_of_warps_multiply_maps_with_pads() -> None:
    """Threads copy these, as a box would be refused."""
    model = network(
        [node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["y"])],
        (1, 64, 4, 60),
        w=weights(64, 64, 3, 3) / 8,
    )
    code = compared(model, "float16", "sm_90a")
    assert cores(code) == ["float16"] and not any(kernel.maps for kernel in code.kernels)
    assert any(b"wgmma.mma_async" in image for image in code.images["sm_90a"])


def test_maps_have_as_many_channels_as_copies_need() -> None:
    """Twenty become 32, whose weights are 0."""
    code = compared(chain(outs=20), "float16", "sm_80")
    shapes = [buffer.shape for buffer in code.host.buffers if buffer.dtype == "float16"]
    assert (32, 3, 3, 32) in shapes and (1, 9, 9, 1, 32) in shapes
    assert cores(code) == ["float16", "float16"]


def test_pools_and_sums_read_maps_as_they_lie() -> None:
    """With pads, and none is copied."""
    model = network(
        [
            node("Conv", ["x", "w"], ["a"]),
            node("MaxPool", ["a"], ["b"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Conv", ["b", "v"], ["c"]),
            node("Concat", ["c", "b"], ["d"], axis=1),
            node("AveragePool", ["d"], ["e"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Conv", ["e", "u"], ["y"]),
        ],
        (1, 16, 12, 12),
        w=weights(16, 16, 1, 1),
        v=weights(32, 16, 1, 1),
        u=weights(16, 48, 1, 1),
    )
    code = build_gpu_code(model, architectures=["sm_80"], cache=NoCache())
    assert (
        len(code.host.calls) == 8
    )  # a (of x as it lies), b, c, both parts of d, e, the last one, out


@pytest.mark.parametrize(("size", "blocks"), [(7, 2), (14, 4), (28, 14)])
def test_rows_of_short_images_fill_a_tile_together(size: int, blocks: int) -> None:
    """A block has 64 pixels, four rows of sixteen if the image is as wide as that or less."""
    code = build_gpu_code(
        chain(size), architectures=["sm_80"], cache=NoCache(), precision="float16"
    )
    grids = [kernel.grid for kernel in product_kernels(code)]
    assert [kernel.cores for kernel in product_kernels(code)] == ["float16"] * 2
    assert grids == [(blocks, 1, 1)] * 2


def test_a_block_copies_the_pixels_that_it_multiplies() -> None:
    """Of a convolution over single pixels, in one dimension, wherever a row of the image ends."""
    model = network(
        [node("Conv", ["x", "w"], ["a"]), node("Conv", ["a", "v"], ["y"])],
        (1, 64, 14, 14),
        w=weights(64, 64, 1, 1),
        v=weights(64, 64, 1, 1),
    )
    code = build_gpu_code(model, architectures=["sm_80"], cache=NoCache(), precision="float16")
    kernels = product_kernels(code)
    assert {kernel.grid for kernel in kernels} == {(4, 1, 1)}  # 196 pixels
    assert {kernel.shared_bytes for kernel in kernels} == {2 * (64 + 64) * 32 * 2}


def test_strided_windows_take_no_further_rows() -> None:
    """They would leave out half of the rows that a block copies."""
    model = network(
        [node("Conv", ["x", "w"], ["y"], strides=[2, 2])],
        (1, 64, 31, 31),
        w=weights(64, 64, 1, 1),
    )
    code = build_gpu_code(model, architectures=["sm_80"], cache=NoCache(), precision="float16")
    (kernel,) = product_kernels(code)
    assert kernel.grid == (16, 1, 1)


def depthwise(channels: int, size: int = 48) -> onnx.ModelProto:
    """A depthwise convolution and a pool between maps whose channels are last."""
    return network(
        [
            node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], group=channels),
            node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["b", "v"], ["y"]),
        ],
        (1, channels, size, size),
        w=weights(channels, 1, 3, 3),
        v=weights(16, channels, 1, 1),
    )


@pytest.mark.parametrize(
    ("size", "precision", "lanes"), [(48, "float32", 4), (48, "float16", 4), (16, "float32", 1)]
)
def test_threads_have_neighbouring_channels(size: int, precision: str, lanes: int) -> None:
    """Of float32, four are a load of 16 bytes, of the map and of the weights for each tap; where
    there would be few threads, each has one channel."""
    code = build_gpu_code(
        depthwise(64, size), architectures=["sm_80"], cache=NoCache(), precision=precision
    )
    images = {
        kernel.symbol: image.decode()
        for kernel, image in zip(code.kernels, code.images["sm_80"], strict=True)
    }
    texts = {name: images[call.symbol] for call in code.host.calls for name in call.computes}
    wide = texts["a"].count(".v4.f32") + texts["a"].count(".v4.u32") + texts["a"].count(".v4.b32")
    assert wide == (2 * 9 + 1 if lanes == 4 else 0)


@pytest.mark.heavy(3)
def test_vectors_compute_what_elements_do() -> None:
    """Of the emulator, once with accesses that are announced, one by one."""
    model = depthwise(64)
    x = np.random.default_rng(0).standard_normal((1, 64, 48, 48)).astype(np.float32)
    (expected,) = open_session(model)({"x": x})
    for checked in (False, True):
        code = build_gpu_code(model, architectures=["emulated"], checked=checked, cache=NoCache())
        (found,) = GpuProgram(code, EmulatedGpu(races=checked, seed=0)).run({"x": x}).values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
