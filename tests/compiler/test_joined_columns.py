"""Maps side by side cost no cycles: each layer stores its rows as far apart as the result's are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.compiler.frontend import load_onnx
from daedal.compiler.pipeline import compile_graph
from daedal.isa.table import Opcode
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from tests.support.networks import check_compiled

Array = np.ndarray
SCALE = 0.2


class Maps(QdqModel):
    """Convolutions of maps of few channels, all with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(5)

    def image(self, shape: tuple[int, ...]) -> str:
        return self.requantized(self.input(f"x{len(self.inputs)}", shape), 0.05, 0)

    def conv(self, x: str, shape: tuple[int, ...], scale: float = SCALE, **attrs: object) -> str:
        """With weights of `shape`; the map keeps its size unless told otherwise."""
        weights = self.weights(self.rng.integers(-127, 128, shape).astype(np.int8), 0.004)
        attrs = {"pads": [shape[2] // 2] * 4, **attrs}
        return self.requantized(self.op("Conv", x, weights, **attrs), scale, 3)

    def joined(self, *maps: str, axis: int = 3) -> str:
        return self.requantized(self.op("Concat", *maps, axis=axis), SCALE, 3)

    def bytes(self, *outputs: str) -> bytes:
        leaving = [self.op("Identity", y, output=f"y{n}") for n, y in enumerate(outputs)]
        return self.model(*leaving).SerializeToString()


def feeds_of(artifact: Artifact) -> dict[str, Array]:
    rng = np.random.default_rng(2)
    return {
        value.name: rng.normal(size=value.shape).astype(np.float32) for value in artifact.inputs
    }


def checked(model: bytes, variant: str = "tiny") -> Artifact:
    """The artifact, each layer of which gives the bytes of the integer reference."""
    artifact = daedal.compile(model, variant)
    check = daedal.check_layers(artifact, model, feeds_of(artifact))
    assert check.passed, check.first_difference
    for launch in artifact.launches:
        verify(launch.program.observed)
    return artifact


def cycles(model: bytes, variant: str) -> int:
    artifact = daedal.compile(model, variant)
    profiles = daedal.simulate(artifact, feeds_of(artifact), device="timing").profiles
    return sum(profile.cycles or 0 for profile in profiles)


def ops(artifact: Artifact) -> list[str]:
    return [layer.op for launch in artifact.launches for layer in launch.layers]


@dataclass(frozen=True)
class Beside:
    """Convolutions of maps of some sizes, joined along the columns or not."""

    sizes: tuple[tuple[int, int], ...]
    channels: int = 32
    variant: str = "vta"

    def model(self, axis: int | None) -> bytes:
        maps, maker = [], Maps()
        for number, size in enumerate(self.sizes):
            x = maker.image((1, self.channels, *size))
            scale = SCALE + 0.05 * number
            maps.append(maker.conv(x, (self.channels, self.channels, 3, 3), scale))
        return maker.bytes(*maps if axis is None else [maker.joined(*maps, axis=axis)])


@pytest.mark.parametrize(
    "case",
    [
        Beside(((12, 12), (12, 12))),
        Beside(((12, 12), (12, 12), (12, 12))),
        Beside(((9, 7), (9, 5)), channels=24),
        Beside(((4, 52), (4, 13)), channels=36),
    ],
    ids=str,
)
def test_a_join_takes_the_cycles_of_maps_that_are_not_joined(case: Beside) -> None:
    apart = cycles(case.model(None), case.variant)
    assert 0 < cycles(case.model(3), case.variant) <= 1.1 * apart


@pytest.mark.parametrize(
    "variant",
    [
        "vta",
        pytest.param(
            "tiny",
            marks=pytest.mark.xfail(
                strict=True,
                reason="LOADs that FETCH hands out past full queues (ADR 39) save cycles "
                "of the join along rows alone",
            ),
        ),
    ],
)
def test_a_join_along_columns_takes_the_cycles_of_one_along_rows(variant: str) -> None:
    case = Beside(((6, 5), (6, 5)), 20, variant)
    assert 0 < cycles(case.model(3), variant) <= cycles(case.model(2), variant)


def test_every_operand_is_compared_in_its_place() -> None:
    """Also each layer whose rows do not follow each other in memory."""
    model = Beside(((4, 6), (4, 3)), 20, "tiny").model(3)
    artifact = daedal.compile(model, "tiny")
    check = daedal.check_layers(artifact, model, feeds_of(artifact))
    assert [item.layer.op for item in check.tensors if item.layer and item.difference] == [
        "q_conv2d",
        "q_conv2d_requantize",
    ]
    assert [layer.result.spec.pitch for layer in artifact.launches[0].layers] == [9, 9]


def depthwise(maker: Maps, x: str) -> str:
    return maker.conv(x, (12, 1, 3, 3), group=12)


def grouped(maker: Maps, x: str) -> str:
    return maker.conv(x, (12, 6, 3, 3), group=2)


def halved(maker: Maps, x: str) -> str:
    wide = maker.op("Resize", x, "", maker.constant(np.array([1, 1, 2, 2], np.float32)),
                    mode="nearest", coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor")  # fmt: skip
    return maker.conv(maker.requantized(wide, SCALE, 3), (12, 12, 3, 3), strides=[2, 2])


def transposed(maker: Maps, x: str) -> str:
    small = maker.conv(x, (12, 12, 3, 3), strides=[2, 2])
    values = maker.rng.integers(-127, 128, (12, 12, 2, 2)).astype(np.int8)
    y = maker.op("ConvTranspose", small, maker.weights(values, 0.004), strides=[2, 2])
    return maker.requantized(y, SCALE, 3)


def largest(maker: Maps, x: str) -> str:
    y = maker.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    return maker.requantized(y, SCALE, 3)


def average(maker: Maps, x: str) -> str:
    y = maker.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)
    return maker.requantized(y, SCALE, 3)


def added(maker: Maps, x: str) -> str:
    return maker.requantized(maker.op("Add", x, maker.conv(x, (12, 12, 1, 1))), SCALE, 3)


def enlarged(maker: Maps, x: str) -> str:
    small = maker.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    scales = maker.constant(np.array([1, 1, 2, 2], np.float32))
    y = maker.op("Resize", maker.requantized(small, SCALE, 3), "", scales, mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    return maker.requantized(y, SCALE, 3)


def shifted(maker: Maps, x: str) -> str:
    """Columns cut and filled up again."""
    given = [maker.constant(np.array(part)) for part in ([1], [6], [3])]
    y = maker.requantized(maker.op("Slice", x, *given), SCALE, 3)
    pads = maker.constant(np.array([0, 0, 0, 1, 0, 0, 0, 0]))
    zero = maker.constant(np.array(0, np.float32))
    return maker.requantized(maker.op("Pad", y, pads, zero), SCALE, 3)


def turned(maker: Maps, x: str) -> str:
    """Rows and columns exchanged: several rows are moved as one."""
    return maker.op("Transpose", x, perm=[0, 1, 3, 2])


LAYERS = (
    *(depthwise, grouped, halved, transposed, largest, average),
    *(added, enlarged, shifted, turned),
)


@pytest.mark.parametrize(("images", "variant"), [(2, "tiny"), (5, "batch4")])
@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_stores_and_reads_columns(
    layer: Callable[[Maps, str], str], images: int, variant: str
) -> None:
    """What it computes is joined, and so is what it reads."""
    maker = Maps()
    x = maker.conv(maker.image((images, 12, 6, 6)), (12, 12, 3, 3))
    whole = maker.joined(layer(maker, x), x)
    compiled = compile_graph(load_onnx(maker.bytes(whole)), load_variant(variant))
    check_compiled(compiled, maker.rng)


def test_nothing_is_copied_where_layers_store_and_read_columns() -> None:
    maker = Maps()
    x = maker.conv(maker.image((1, 12, 6, 6)), (12, 12, 3, 3))
    whole = maker.joined(x, largest(maker, x), maker.conv(x, (12, 12, 3, 3)))
    artifact = checked(maker.bytes(maker.conv(whole, (12, 12, 3, 3))))
    assert ops(artifact) == ["q_conv2d", "q_max_pool", "q_conv2d", "q_conv2d"]


@pytest.mark.parametrize("what", ["input", "output", "twice", "joined before", "rows below"])
def test_what_must_lie_elsewhere_is_copied(what: str) -> None:
    maker = Maps()
    image = maker.image((1, 12, 6, 6))
    x, y = (maker.conv(image, (12, 12, 3, 3)) for _ in range(2))
    outputs = []
    if what == "input":
        x = image = maker.requantized(image, SCALE, 3)
    if what == "output":
        outputs = [x]
    if what == "joined before":
        outputs = [maker.joined(x, y, axis=1)]
    if what == "rows below":
        outputs = [maker.joined(x, y, axis=2)]
    whole = maker.joined(x, x if what == "twice" else y)
    artifact = checked(maker.bytes(maker.conv(whole, (12, 12, 3, 3)), *outputs))
    assert "q_requantize" in ops(artifact)
    assert "q_add" not in ops(artifact)


@pytest.mark.parametrize("axis", [2, 3])
@pytest.mark.parametrize("variant", ["tiny", "batch4"])
def test_maps_of_several_images(variant: str, axis: int) -> None:
    maker = Maps()
    image = maker.image((3, 12, 5, 6))
    whole = maker.joined(*(maker.conv(image, (12, 12, 3, 3)) for _ in range(2)), axis=axis)
    artifact = checked(maker.bytes(maker.conv(whole, (12, 12, 3, 3))), variant)
    assert {"q_pad", "q_add"}.isdisjoint(ops(artifact))


def test_sequences_of_several_images() -> None:
    maker = Maps()
    image = maker.image((2, 12, 1, 9))
    flat = maker.constant(np.array([2, 12, 9]))
    parts = [maker.op("Reshape", maker.conv(image, (12, 12, 1, 1)), flat) for _ in range(2)]
    checked(maker.bytes(maker.joined(*parts, axis=2)))


def test_rows_of_a_tile_are_stored_together() -> None:
    """One STORE for all rows of a tile."""
    artifact = checked(Beside(((6, 5), (6, 4)), 8, "tiny").model(3))
    stores = [
        item for item in artifact.launches[0].program.instructions if item.opcode is Opcode.STORE
    ]
    assert [(item.rows, item.cols) for item in stores] == [(2, 5)] * 3 + [(2, 4)] * 3
    assert {item.row_stride_beats for item in stores} == {9}


@pytest.mark.rtl
@pytest.mark.parametrize("sizes", [((6, 5), (6, 4)), ((4, 3), (4, 8), (4, 1))])
def test_rtl_gives_the_bytes_of_the_reference(sizes: tuple[tuple[int, int], ...]) -> None:
    model = Beside(sizes, 12, "tiny").model(3)
    artifact = daedal.compile(model, "tiny")
    feeds = feeds_of(artifact)
    device = rtl_device(artifact.launches[0].program.variant)
    found = daedal.check_layers(artifact, model, feeds, device=device)
    assert found.passed, found.first_difference
    expected = daedal.simulate(artifact, feeds, device="functional").outputs
    for name, array in found.result.outputs.items():
        np.testing.assert_array_equal(array, expected[name])
