"""Slices before the operators whose results they take: exact, and only where it saves a layer."""

import numpy as np
import pytest

from daedal.artifact.artifact import Counterpart
from daedal.compiler.graph import Graph, GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.graph import Attrs
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.passes import compute_used_parts
from daedal.compiler.graph.same_elements import SameElements
from daedal.compiler.graph.selection import PIXELWISE

WIDE = {"zero_point": 0, "low": -(1 << 15), "high": (1 << 15) - 1}
TOKENS, CHANNELS = 12, 8


def int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


class Network:
    """Collects integer operators on maps."""

    def __init__(self, rng: np.random.Generator, *shape: int) -> None:
        self.rng = rng
        self.builder = GraphBuilder("network")
        self.builder.input("x", TensorType(shape, "int8"))

    def name(self, base: str) -> str:
        return self.builder.fresh_name(base)

    def constant(self, base: str, value: np.ndarray) -> str:
        return self.builder.constant(self.name(base), value)

    def conv(self, x: str, kernel: int = 1, finish: Attrs = UNCHANGED) -> str:
        channels = self.builder.types[x].shape[1]
        w = self.constant("w", int8(self.rng, CHANNELS, channels, kernel, 1))
        rows = np.stack(
            [
                self.rng.integers(-500, 500, CHANNELS),
                self.rng.integers(1 << 15, 1 << 17, CHANNELS),
                np.full(CHANNELS, 24),
            ],
            axis=1,
        )
        pad = kernel // 2
        attrs = {**PIXELWISE, **finish, "pads": (pad, 0, pad, 0)}
        operands = [x, w, self.constant("p", rows)]
        return self.builder.add("q_conv2d", operands, attrs, output=self.name("conv"))

    def leaky(self, x: str) -> str:
        p = self.constant("p", np.array([[0, 3, 1]]))
        return self.builder.add("q_requantize", [x, p], UNCHANGED, output=self.name("leaky"))

    def add(self, a: str, b: str, finish: Attrs = UNCHANGED) -> str:
        p = self.constant("p", np.array([[1, 1, 1]]))
        attrs = {"multiplier_a": 1, "multiplier_b": 1, **finish}
        return self.builder.add("q_add", [a, b, p], attrs, output=self.name("sum"))

    def slice(
        self, x: str, axis: int, begin: int, end: int, step: int = 1, finish: Attrs = UNCHANGED
    ) -> str:
        shape = self.builder.types[x].shape
        begins, ends, steps = [0] * 4, list(shape), [1] * 4
        begins[axis], ends[axis], steps[axis] = begin, end, step
        attrs = {"begins": tuple(begins), "ends": tuple(ends), "steps": tuple(steps)}
        p = self.constant("p", IDENTITY)
        return self.builder.add("q_slice", [x, p], {**attrs, **finish}, output=self.name("cut"))

    def turned(self, x: str) -> str:
        """Tokens as rows: (1, T, C)."""
        _, channels, tokens, _ = self.builder.types[x].shape
        flat = self.builder.add(
            "reshape", [x], {"shape": (1, channels, tokens)}, output=self.name("flat")
        )
        return self.builder.add("transpose", [flat], {"order": (0, 2, 1)}, output=self.name("rows"))

    def as_map(self, x: str) -> str:
        _, tokens, channels = self.builder.types[x].shape
        flat = self.builder.add("transpose", [x], {"order": (0, 2, 1)}, output=self.name("turned"))
        shape = {"shape": (1, channels, tokens, 1)}
        return self.builder.add("reshape", [flat], shape, output=self.name("map"))

    def finish(self, *outputs: str) -> Graph:
        return self.builder.finish(outputs)


def same_results(graph: Graph, rng: np.random.Generator) -> Graph:
    """The graph after the pass, which computes the same."""
    found = compute_used_parts(graph)
    verify(found)
    feeds = {
        name: int8(rng, *graph.types[name].shape).astype(graph.types[name].dtype)
        for name in graph.inputs
    }
    before, after = run(graph, feeds), run(found, feeds)
    for name in graph.outputs:
        np.testing.assert_array_equal(after[name], before[name])
    return found


def shapes(graph: Graph, op: str) -> list[tuple[int, ...]]:
    return [graph.types[node.output].shape for node in graph.nodes if node.op == op]


def test_a_block_computes_the_token_that_is_read(rng: np.random.Generator) -> None:
    """Its sum needs the token of both operands, one of which another layer reads whole."""
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    x = it.conv("x")
    mixed = it.conv(x, kernel=3)
    y = it.add(x, it.conv(it.leaky(it.conv(mixed))))
    rows = it.as_map(it.turned(it.conv(y)))
    graph = it.finish(it.conv(it.slice(rows, 2, 5, 6)))
    found = same_results(graph, rng)
    whole, one = (1, CHANNELS, TOKENS, 1), (1, CHANNELS, 1, 1)
    assert shapes(found, "q_conv2d") == [whole, whole, one, one, one, one]
    assert shapes(found, "q_add") == shapes(found, "q_requantize") == [one]
    # Of what two layers before compute whole.
    assert shapes(found, "q_slice") == [one, one]


@pytest.mark.parametrize("kept", [1, 3])
def test_a_token_of_16_bits_that_the_host_gives_is_cut_out_as_a_row(
    kept: int, rng: np.random.Generator
) -> None:
    """As channels, tokens would have to move between lanes, which 16 bits cannot."""
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    it.builder.input("given", TensorType((1, TOKENS, CHANNELS, 1), "int16"))
    rows = it.turned(it.conv(it.leaky(it.conv("x")), finish=WIDE))
    attrs = {"shape": (1, TOKENS, CHANNELS, 1)}
    rows = it.builder.add("reshape", [rows], attrs, output="rows.map")
    total = it.add("given", rows, finish=WIDE)
    graph = it.finish(it.slice(total, 1, 5, 5 + kept, finish=WIDE))
    found = same_results(graph, rng)
    assert shapes(found, "q_slice") == 2 * [(1, CHANNELS, kept, 1)]
    assert shapes(found, "q_add") == [(1, kept, CHANNELS, 1)]


@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    print(f"seed {seed}")
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    known = ["x"]
    for _ in range(12):
        x = str(rng.choice(known))
        same = [name for name in known if it.builder.types[name] == it.builder.types[x]]
        match int(rng.integers(7)):
            case 0 | 1:
                y = it.conv(x, int(rng.choice([1, 1, 1, 3])))
            case 2:
                y = it.leaky(x)
            case 3:
                y = it.add(x, str(rng.choice(same)))
            case 4:
                y = it.as_map(it.turned(x))
            case 5:
                shape = it.builder.types[x].shape
                data = it.constant("data", int8(rng, *shape))
                y = it.add(x, data)
            case _:
                axis = int(rng.choice([1, 2, 2]))
                extent = it.builder.types[x].shape[axis]
                begin = int(rng.integers(extent))
                end = int(rng.integers(begin, extent)) + 1
                y = it.slice(x, axis, begin, end, int(rng.choice([1, 1, 2])))
        known.append(y)
    outputs = [str(rng.choice(known[-4:])), known[-1]]
    same_results(it.finish(*dict.fromkeys(outputs)), rng)


def test_what_cannot_compute_a_part_keeps_its_activation(rng: np.random.Generator) -> None:
    """An activation is a part of the convolution's layer, and a slice between them would be a
    layer more."""
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    graph = it.finish(it.slice(it.leaky(it.conv("x", kernel=3)), 2, 0, 2))
    found = same_results(graph, rng)
    assert [node.op for node in found.nodes] == ["q_conv2d", "q_requantize", "q_slice"]


@pytest.mark.parametrize(("axis", "end"), [(2, TOKENS // 2 + 1), (1, 3)])
def test_a_large_part_or_channels_stay(rng: np.random.Generator, axis: int, end: int) -> None:
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    graph = it.finish(it.slice(it.conv("x"), axis, 0, end))
    found = same_results(graph, rng)
    assert shapes(found, "q_conv2d") == [(1, CHANNELS, TOKENS, 1)]


def test_two_readers_share_what_both_need(rng: np.random.Generator) -> None:
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    y = it.conv("x")
    graph = it.finish(it.slice(y, 2, 3, 4), it.slice(y, 2, 5, 7))
    found = same_results(graph, rng)
    assert shapes(found, "q_conv2d") == [(1, CHANNELS, 4, 1)]


def test_a_result_of_the_network_is_whole(rng: np.random.Generator) -> None:
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    y = it.conv("x")
    graph = it.finish(it.slice(y, 2, 3, 4), y)
    assert shapes(same_results(graph, rng), "q_conv2d") == [(1, CHANNELS, TOKENS, 1)]


def test_a_product_of_a_tensor_with_itself(rng: np.random.Generator) -> None:
    """One token of the result needs the products of all tokens with it."""
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    x = it.conv("x")
    constants = [
        it.constant("f", np.zeros(1, dtype=np.int8)),
        it.constant("p", np.array([[5, 1 << 16, 26]])),
    ]
    attrs = {"zero_point_a": 0, "zero_point_b": 0, "columns": TOKENS, **UNCHANGED}
    cuts = []
    for other in (x, it.conv("x")):
        operands = [x, other, *constants]
        product = it.builder.add("q_matmul", operands, attrs, output=it.name("product"))
        cuts.append(it.slice(product, 2, 3, 4))
    found = same_results(it.finish(*cuts), rng)
    assert shapes(found, "q_matmul") == [(1, TOKENS, TOKENS, 1), (1, TOKENS, 1, 1)]


def test_what_a_part_is_compared_with(rng: np.random.Generator) -> None:
    it = Network(rng, 1, CHANNELS, TOKENS, 1)
    y = it.conv("x")
    graph = it.finish(it.slice(it.conv(y), 2, 3, 4))
    found = compute_used_parts(graph)
    (first,) = [node.output for node in found.nodes if node.op == "q_conv2d"][:1]
    box = ((0, 1), (0, CHANNELS), (3, 4), (0, 1))
    assert SameElements([found]).counterpart(first, graph.types) == Counterpart(y, (), box)
