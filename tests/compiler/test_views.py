"""Networks whose concats, slices and reshapes are no work, on the machine.

Random graphs of maps that are joined, cut and reshaped every which way; what leaves has to have the
bytes of the plain graph's interpreter, wherever the linker put it.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import daedal
from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, GraphBuilder, TensorType, run
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.pipeline import compile_graph
from daedal.isa.table import Opcode
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.layers import layer_tags
from daedal.sim.functional.device import FunctionalDevice
from tests.support.levels import Compiled
from tests.support.networks import check_compiled
from tests.support.pick import Pick

VARIANTS = {name: load_variant(name) for name in ("tiny", "vta", "batch4", "int4")}


class Maps:
    """Draws a graph of integer operators on maps of as many pixels."""

    def __init__(self, pick: Pick, variant: Variant) -> None:
        self.pick, self.block = pick, variant.block
        self.builder = GraphBuilder("maps")
        self.high = (1 << (variant.array.input_bits - 1)) - 1
        self.bounds: dict[str, AttrValue] = {
            "zero_point": 0,
            "low": -self.high - 1,
            "high": self.high,
        }
        self.known: list[str] = []

    def draw(self, steps: int) -> Graph:
        """`steps` operators after the first; some of their results leave."""
        images, height, width = self.pick.one_of(((1, 3, 4), (1, 6, 1), (2, 2, 5)))
        shape = (images, self.pick.integer(1, 3) * self.block, height, width)
        self.known = [self.builder.input("x", TensorType(shape, "int8"))]
        self.known.append(self._stored("t0"))
        kinds: list[Callable[[str], str]] = [
            self._stored,
            self._joined,
            self._joined,
            self._joined,
            self._cut,
            self._reshaped,
            self._beside,
            self._read_twice,
        ]
        kinds += [self._below] if images == 1 else []
        for number in range(1, steps + 1):
            self.known.append(self.pick.one_of(kinds)(f"t{number}"))
        leaving = [name for name in self.known[1:] if not self.pick.integer(0, 3)]
        return self.builder.finish((*leaving, self._stored("last")))

    def inputs(self) -> dict[str, np.ndarray]:
        shape = self._shape("x")
        values = self.pick.rng.integers(-self.high - 1, self.high + 1, shape)
        return {"x": values.astype(np.int8)}

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.builder.types[name].shape

    def _recent(self) -> str:
        return self.known[-1 - min(self.pick.integer(0, 4), len(self.known) - 1)]

    def _stored(self, name: str) -> str:
        row = [self.pick.integer(-9, 9), self.pick.one_of((1, 3)), 1]
        return self._add("q_requantize", [self._recent()], [row], {}, name)

    def _joined(self, name: str) -> str:
        """Up to four maps of equal pixels, most of them with the scale of the result."""
        last = self._recent()
        fits = [x for x in self.known if self._shape(x)[2:] == self._shape(last)[2:]]
        whole = [x for x in fits if self._shape(x)[1] % self.block == 0] or [last]
        maps = [self.pick.one_of(whole) for _ in range(self.pick.integer(0, 3))]
        maps = [x for x in maps if self._shape(x)[1] % self.block == 0] + [last]
        channels = tuple(self._shape(x)[1] for x in maps)
        if sum(channels) > 9 * self.block:
            return self._cut(name)
        rows = [[0, 1, 0] if self.pick.integer(0, 5) else [1, 3, 2] for _ in maps]
        return self._add("q_concat", maps, rows, {"channels": channels}, name)

    def _below(self, name: str) -> str:
        """Up to four maps of equal channels, one below the other."""
        last = self._recent()
        images, channels, _, width = self._shape(last)
        fits = [x for x in self.known if self._shape(x)[1::2] == (channels, width)]
        maps = [self.pick.one_of(fits) for _ in range(self.pick.integer(0, 3))] + [last]
        rows = sum(self._shape(x)[2] for x in maps)
        if rows * channels > 60 * self.block or images > 1:
            return self._cut(name)
        return self.builder.add("rows_view", maps, output=name)

    def _beside(self, name: str) -> str:
        """Up to four maps of equal channels and rows, side by side."""
        last = self._recent()
        images, channels, height, _ = self._shape(last)
        fits = [x for x in self.known if self._shape(x)[:3] == (images, channels, height)]
        maps = [self.pick.one_of(fits) for _ in range(self.pick.integer(0, 3))] + [last]
        width = sum(self._shape(x)[3] for x in maps)
        if height * width * channels > 60 * self.block:
            return self._cut(name)
        return self.builder.add("columns_view", maps, output=name)

    def _read_twice(self, name: str) -> str:
        """The sum of two maps, each of which others may read, too."""
        last = self._recent()
        fits = [x for x in self.known if self._shape(x) == self._shape(last)]
        maps = [self.pick.one_of(fits), last]
        factors: dict[str, AttrValue] = {"multiplier_a": 1, "multiplier_b": 1}
        return self._add("q_add", maps, [[0, 1, 1]], factors, name)

    def _cut(self, name: str) -> str:
        """From a whole block of channels on, and seldom from another row than the first."""
        x = self._recent()
        shape = self._shape(x)
        begin = self.pick.integer(0, (shape[1] - 1) // self.block) * self.block
        end = min(shape[1], begin + self.pick.integer(1, 2) * self.block)
        top = 0 if self.pick.integer(0, 4) else shape[2] // 2
        attrs: dict[str, AttrValue] = {
            "begins": (0, begin, top, 0),
            "ends": (shape[0], end, *shape[2:]),
            "steps": (1, 1, 1, 1),
        }
        return self._add("q_slice", [x], [[0, 1, 0]], attrs, name)

    def _reshaped(self, name: str) -> str:
        x = self._recent()
        images, channels, height, width = self._shape(x)
        return self.builder.add(
            "reshape", [x], {"shape": (images, channels, width, height)}, output=name
        )

    def _add(
        self,
        op: str,
        maps: list[str],
        rows: list[list[int]],
        attrs: dict[str, AttrValue],
        name: str,
    ) -> str:
        params = self.builder.constant(f"{name}.params", np.array(rows, dtype=np.int64))
        return self.builder.add(op, [*maps, params], {**attrs, **self.bounds}, output=name)


def check_random(variant: Variant, pick: Pick) -> None:
    """One launch of a random graph gives what the graph means."""
    maps = Maps(pick, variant)
    graph = maps.draw(pick.integer(3, 14))
    inputs = maps.inputs()
    result = Compiled.of(graph, variant).result
    launch = result.launch
    verify(launch.program)
    assert launch.report.workspace_bytes >= launch.report.workspace_bound_bytes
    before, after = result.host_parts
    packed = run(before, inputs)
    kinds = launch.graph.types
    values = {}
    for spec in launch.program.inputs:
        n, c, _, _ = kinds[spec.name].shape
        values[spec.name] = kinds[spec.name].layout.unpack(packed[spec.name])[:n, :c]
    found, _ = LoadedProgram.place(launch.program, FunctionalDevice(variant)).run(values)
    left = {name: kinds[name].layout.pack(array.astype(np.int8)) for name, array in found.items()}
    known = {**inputs, **packed, **left}
    expected = run(graph, inputs)
    results = {**known, **run(after, {name: known[name] for name in after.inputs})}
    for name in graph.outputs:
        np.testing.assert_array_equal(results[name], expected[name], name)


# Making a failing graph smaller compiles it hundreds of times: it is small enough as it comes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@settings(max_examples=25, phases=PHASES)
@given(st.sampled_from(list(VARIANTS)), st.integers(0, 2**32 - 1))
@example("int4", 720)  # a part of a map, cut alone
def test_random_graphs(variant: str, seed: int) -> None:
    check_random(VARIANTS[variant], Pick.seeded([seed]))


@pytest.mark.slow
@settings(max_examples=300, phases=PHASES)
@given(st.sampled_from(list(VARIANTS)), st.integers(0, 2**32 - 1))
def test_many_random_graphs(variant: str, seed: int) -> None:
    check_random(VARIANTS[variant], Pick.seeded([seed]))


class Layers(QdqModel):
    """Convolutions and concats of 7x7 maps; every tensor has the same scale unless told."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng = rng

    def conv(self, x: str, channels: tuple[int, int], size: int = 1, scale: float = 0.05) -> str:
        inner, outer = channels
        values = self.rng.integers(-127, 128, (outer, inner, size, size), dtype=np.int8)
        pads, kernel = [size // 2] * 4, [size, size]
        y = self.op("Conv", x, self.weights(values, 0.002), pads=pads, kernel_shape=kernel)
        return self.requantized(self.op("Relu", y), scale, 0)

    def joined(self, *maps: str) -> str:
        return self.requantized(self.op("Concat", *maps, axis=1), 0.05, 0)

    def dense(self, x: str) -> str:
        """A dense block of three layers."""
        for width in (32, 48, 64):
            x = self.joined(x, self.conv(self.conv(x, (width, 64)), (64, 16), 3))
        return self.conv(x, (80, 16))

    def inception(self, x: str) -> str:
        """Four branches, one with a scale of its own, and two of channels that fill no block."""
        pool = self.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
        branches = [
            self.conv(x, (32, 16)),
            self.conv(self.conv(x, (32, 24)), (24, 32), 3),
            self.conv(self.conv(x, (32, 8)), (8, 16), 5, scale=0.04),
            self.conv(self.requantized(pool, 0.05, 0), (32, 8)),
        ]
        return self.conv(self.joined(*branches), (72, 16))

    def network(self, make: Callable[["Layers", str], str]) -> bytes:
        x = self.requantized(self.input("x", (1, 3, 7, 7)), 0.05, 0)
        make(self, self.conv(x, (3, 32), 3))
        last = self.nodes[-2].output[0]
        return self.model(last, dtype="int8").SerializeToString()


@pytest.mark.parametrize("reads_out", [False, True], ids=["stored", "in OUT"])
@pytest.mark.parametrize(
    ("make", "num_layers"), [(Layers.dense, 8), (Layers.inception, 9)], ids=["dense", "inception"]
)
def test_concats_of_networks_store_no_byte_twice(
    make: Callable[[Layers, str], str], num_layers: int, reads_out: bool, rng: np.random.Generator
) -> None:
    """There is no layer but those of the convolutions and the pool: a branch of another scale is
    rescaled on the chip. What GEMM reads in OUT is not stored at all."""
    variant = VARIANTS["vta"].replace("reads_out", gemm_reads_out=reads_out)
    compiled = compile_graph(load_onnx(Layers(rng).network(make)), variant)
    check_compiled(compiled, rng)
    launch = compiled.launch
    kinds = launch.graph.types
    assert len(launch.layers) == num_layers
    assert launch.report.workspace_bytes <= 1.1 * launch.report.workspace_bound_bytes
    stored = dict.fromkeys((layer.tag for layer in launch.layers), 0)
    for tag, item in zip(layer_tags(launch.program), launch.program.instructions, strict=True):
        if item.opcode is Opcode.STORE:
            stored[tag] += 16 * item.blocks * item.rows * item.cols
    sizes = {layer.tag: kinds[layer.output].size_bytes for layer in launch.layers}
    kept = {tag for tag in sizes if not stored[tag]}
    assert bool(kept) == reads_out
    assert stored == {tag: 0 if tag in kept else size for tag, size in sizes.items()}


def test_a_layer_that_rescales_its_result_does_the_work_of_its_convolution(
    rng: np.random.Generator,
) -> None:
    """The model's tensor in between is nowhere, but its nodes are."""
    artifact = daedal.compile(Layers(rng).network(Layers.inception), "vta")
    (rescaling,) = [layer for layer in artifact.layers if layer.op == "q_conv2d_requantize"]
    assert rescaling.output == f"{rescaling.name}.rescaled"
    ops = [item.op for item in artifact.placements if item.layer == rescaling.output]
    assert ops == ["Conv", "Relu"]
