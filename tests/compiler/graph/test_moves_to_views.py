"""Views: which moves take no work, which bytes they share, and what has to be copied instead."""

import numpy as np
import pytest

from daedal.artifact.artifact import Counterpart, Move
from daedal.compiler.graph import Graph, GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.aliases import aliases_of, row_pitch
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.views import run_of_blocks
from daedal.compiler.graph.passes import moves_to_views, rescale_before_concat, to_blocked
from daedal.compiler.graph.same_elements import SameElements

BLOCK = 4
SAME = {"zero_point": 0, "low": -128, "high": 127}


class Maps:
    """Builds a blocked graph of maps of 3x5 pixels, in blocks of 4 channels."""

    def __init__(self, batch: int = 1, images: int = 1) -> None:
        self.layout = ActivationLayout(batch, BLOCK)
        self.builder = GraphBuilder("views")
        self.images = images

    def input(self, name: str, channels: int) -> str:
        shape = (self.images, channels, 3, 5)
        return self.builder.input(name, TensorType(shape, "int8", self.layout))

    def made(self, source: str, name: str, low: int = -100) -> str:
        """What some operator stores, with values from `low` on."""
        params = self._params(name, [[3, 1, 0]])
        attrs = {**SAME, "low": low}
        return self.builder.add("q_requantize", [source, params], attrs, output=name)

    def concat(
        self, name: str, *maps: str, factors: tuple[int, ...] = (), taken: tuple[int, ...] = ()
    ) -> str:
        """Joined maps, each multiplied by its factor (1)."""
        rows = [[0, factor, 0] for factor in factors or [1] * len(maps)]
        channels = taken or tuple(self.builder.types[x].shape[1] for x in maps)
        attrs = {"channels": channels, **SAME}
        params = self._params(name, rows)
        return self.builder.add("q_concat", [*maps, params], attrs, output=name)

    def joined_columns(self, name: str, *maps: str) -> str:
        """Maps joined along their columns."""
        return self.builder.add("columns_view", maps, output=name)

    def slice(self, name: str, x: str, begins: tuple[int, ...], ends: tuple[int, ...]) -> str:
        attrs = {"begins": begins, "ends": ends, "steps": (1, 1, 1, 1), **SAME}
        params = self._params(name, [[0, 1, 0]])
        return self.builder.add("q_slice", [x, params], attrs, output=name)

    def channels(self, name: str, x: str, begin: int, end: int) -> str:
        return self.slice(name, x, (0, begin, 0, 0), (self.images, end, 3, 5))

    def _params(self, name: str, rows: list[list[int]]) -> str:
        lanes = np.repeat(np.array(rows)[:, None, :], BLOCK, axis=1)
        return self.builder.constant(f"{name}.params", lanes)


def rewritten(graph: Graph, rng: np.random.Generator) -> Graph:
    """The graph with views, which has the bytes it had."""
    result = moves_to_views(graph)
    check_equal(graph, result, rng)
    check_storage(result)
    return result


def rescaled(graph: Graph, rng: np.random.Generator) -> Graph:
    """The graph with changes of scale before concats, which has the bytes it had."""
    result = rescale_before_concat(graph)
    check_equal(graph, result, rng)
    return result


def check_equal(graph: Graph, result: Graph, rng: np.random.Generator) -> None:
    """Every tensor that leaves has the bytes it had."""
    verify(result)
    values = {
        name: rng.integers(-128, 128, graph.types[name].physical_shape).astype(np.int8)
        for name in graph.inputs
    }
    expected = run(graph, values)
    for name, found in run(result, values).items():
        np.testing.assert_array_equal(found, expected[name])


def check_storage(graph: Graph) -> None:
    """Stores into one shared array, in order, leave every tensor of a group where it lies."""
    places = aliases_of(graph)
    sizes = {name: int(np.prod(kind.physical_shape)) for name, kind in graph.types.items()}
    elements = {name: elements_of(graph, name, begin) for name, (_, begin) in places.items()}
    ends = {group: 0 for group, _ in places.values()}
    for name, (group, begin) in places.items():
        assert begin >= 0
        ends[group] = max(ends[group], elements[name][-1] + 1)
    memory = {group: np.full(end, -1) for group, end in ends.items()}
    stamps: dict[str, np.ndarray] = {}
    stored = [*graph.inputs, *(n.output for n in graph.nodes if not n.op.endswith("_view"))]
    for number, name in enumerate(stored):
        stamps[name] = np.arange(sizes[name]) + number * 100_000
        if name in places:
            held = memory[places[name][0]]
            assert (held[elements[name]] == -1).all(), f"{name} overwrites"
            held[elements[name]] = stamps[name]
    for node in graph.nodes:
        if node.op == "columns_view":
            parts = [stamps[name].reshape(graph.types[name].physical_shape) for name in node.inputs]
            stamps[node.output] = np.concatenate(parts, axis=3).reshape(-1)
        if node.op == "concat_view":
            stamps[node.output] = np.concatenate([stamps[name] for name in node.inputs])
        elif node.op == "slice_view":
            x = graph.types[node.inputs[0]]
            run = run_of_blocks(x, node.attrs["begins"], node.attrs["ends"])
            assert run is not None
            stamps[node.output] = stamps[node.inputs[0]][run[0] : run[0] + run[1]]
        elif node.op == "reshape_view":
            stamps[node.output] = stamps[node.inputs[0]]
    for name, (group, _) in places.items():
        held = memory[group][elements[name]]
        np.testing.assert_array_equal(held, stamps[name], err_msg=name)


def elements_of(graph: Graph, name: str, begin: int) -> np.ndarray:
    """Where the elements of a tensor lie in its group."""
    *outer, width, batch, block = graph.types[name].physical_shape
    pitch = row_pitch(graph, name) or width
    every = np.arange(np.prod(outer) * pitch * batch * block).reshape(-1, pitch * batch * block)
    return begin + every[:, : width * batch * block].reshape(-1)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_a_concat_of_computed_maps_is_no_work(rng):
    maps = Maps()
    x = maps.input("x", 8)
    a, b = maps.made(x, "a"), maps.made(x, "b")
    graph = maps.builder.finish((maps.concat("c", a, b),))
    result = rewritten(graph, rng)
    assert ops(result) == ["q_requantize", "q_requantize", "concat_view"]
    assert aliases_of(result) == {"c": ("c", 0), "a": ("c", 0), "b": ("c", 8 * 15)}


def test_operands_with_other_scales_get_the_one_of_the_result_first(rng):
    maps = Maps()
    x = maps.input("x", 6)
    made = [maps.made(x, name) for name in "abc"]
    c = maps.concat("y", *made, x, factors=(1, 2, 1, 3), taken=(8, 8, 8, 6))
    graph = maps.builder.finish((c,))
    result = rewritten(rescaled(graph, rng), rng)
    assert ops(result)[3:] == ["q_requantize", "q_requantize", "concat_view"]
    assert result.nodes[-1].inputs == ("a", "b.rescaled", "c", "x.rescaled")


def test_a_rescaled_operand_is_a_part_of_the_result(rng):
    """The channels behind those of the operands before it."""
    maps = Maps()
    made = [maps.made(maps.input(f"{name}.x", 4 * k), name) for k, name in enumerate("abc", 1)]
    graph = maps.builder.finish((maps.concat("y", *made, factors=(2, 2, 3)),))
    same = SameElements([rescaled(graph, rng)])
    for name, begin, end in (("a", 0, 4), ("b", 4, 12), ("c", 12, 24)):
        found = same.counterpart(f"{name}.rescaled", {"y": graph.types["y"]})
        assert found == Counterpart("y", (), ((0, 1), (begin, end), (0, 3), (0, 5)))


def test_a_concat_of_one_scale_stays_as_it_is(rng):
    maps = Maps()
    a = maps.made(maps.input("x", 4), "a")
    graph = maps.builder.finish((maps.concat("c", a, "x"),))
    assert rescaled(graph, rng).nodes == graph.nodes


def test_concats_that_copy_rescale_on_the_way(rng):
    """Several blocks of images: a pass of its own would move the bytes twice."""
    maps = Maps(images=2)
    a = maps.made(maps.input("x", 4), "a")
    graph = maps.builder.finish((maps.concat("c", a, "x", factors=(2, 1)),))
    assert ops(rewritten(rescaled(graph, rng), rng)) == ["q_requantize", "q_concat"]


def test_bounds_that_no_value_reaches_change_nothing(rng):
    """A concat with the bounds of a ReLU, of maps that a ReLU made."""
    for low, views in ((0, 1), (-1, 0)):
        maps = Maps()
        a = maps.made(maps.input("x", 4), "a", low)
        params = maps._params("c", [[0, 1, 0]])
        attrs = {**SAME, "low": 0, "channels": (4,)}
        maps.builder.add("q_concat", [a, params], attrs, output="c")
        result = rewritten(maps.builder.finish(("c",)), rng)
        assert ops(result).count("concat_view") == views


def test_what_has_to_lie_in_two_places_is_copied_once(rng):
    maps = Maps()
    x = maps.input("x", 4)
    a, b = maps.made(x, "a"), maps.made(x, "b")
    twice = maps.concat("twice", a, a)
    before, behind = maps.concat("before", b, a), maps.concat("behind", a, b)
    result = rewritten(maps.builder.finish((twice, before, behind)), rng)
    views = [node.inputs for node in result.nodes if node.op == "concat_view"]
    assert views == [("a", "a.part"), ("b", "a"), ("a.part_1", "b")]
    assert [aliases_of(result)[name][1] // 60 for name in ("b", "a", "a.part")] == [1, 2, 3]


def test_inputs_are_copied_and_a_concat_of_copies_stays(rng):
    maps = Maps()
    x, z = maps.input("x", 4), maps.input("z", 4)
    a = maps.made(x, "a")
    c, d = maps.concat("c", x, a), maps.concat("d", x, z)
    result = rewritten(maps.builder.finish((c, d)), rng)
    assert ops(result) == ["q_requantize", "q_requantize", "concat_view", "q_concat"]


@pytest.mark.parametrize("nested", [True, False])
def test_growing_concats_are_prefixes_of_the_last_one(rng, nested):
    """Dense blocks, written either way: the concat before and a map, or all the maps."""
    maps = Maps()
    grown = [maps.made(maps.input("x", 8), "t0")]
    for step in range(1, 5):
        joined = maps.concat(f"c{step}", *grown)
        new = maps.made(maps.channels(f"s{step}", joined, 0, 4), f"t{step}")
        grown = [joined, new] if nested else [*grown, new]
    result = rewritten(maps.builder.finish((maps.concat("y", *grown),)), rng)
    assert ops(result).count("q_requantize") == 5 and "q_concat" not in ops(result)
    places = aliases_of(result)
    assert [places[f"t{n}"][1] // 15 for n in range(5)] == [0, 8, 12, 16, 20]
    assert {begin for name, (_, begin) in places.items() if name[0] in "cys"} == {0}


@pytest.mark.parametrize("images", [1, 3])
def test_maps_side_by_side_are_stored_at_the_stride_of_all(rng, images):
    maps = Maps(images=images)
    x = maps.input("x", 8)
    a, b = maps.made(x, "a"), maps.made(x, "b")
    whole = maps.joined_columns("c", a, maps.joined_columns("d", b, maps.made(a, "e")))
    result = rewritten(maps.builder.finish((whole,)), rng)
    assert ops(result).count("q_requantize") == 4, "what is joined is copied, to be joined again"
    assert result.nodes[-1].inputs == ("a", "d.part")
    columns = 5 * BLOCK
    assert aliases_of(result) == {
        "d": ("d", 0),
        "b": ("d", 0),
        "e": ("d", columns),
        "c": ("c", 0),
        "a": ("c", 0),
        "d.part": ("c", columns),
    }
    assert [row_pitch(result, name) for name in ("a", "b", "d", "c")] == [15, 10, 0, 0]


def test_maps_side_by_side_are_copied_where_their_rows_must_follow_each_other(rng):
    """Inputs, outputs, what lies in another tensor, and what other views read."""
    maps = Maps()
    x = maps.input("x", 4)
    a, b, c, d = (maps.made(x, name) for name in "abcd")
    joined = maps.concat("joined", a, b)
    maps.builder.add("reshape_view", [c], {"shape": (1, 4, 15, 1)}, output="long")
    whole = maps.joined_columns("whole", x, a, c, d, maps.made(b, "e"))
    result = rewritten(maps.builder.finish((joined, "long", d, whole)), rng)
    assert result.producers["whole"].inputs == ("x.part", "a.part", "c.part", "d.part", "e")


def test_columns_of_a_map_have_no_views(rng):
    """Operators read them where they lie."""
    maps = Maps()
    x = maps.input("x", 8)
    a, b = maps.made(x, "a"), maps.made(x, "b")
    whole, again = maps.joined_columns("whole", a, b, a), maps.joined_columns("again", b, a)
    part = maps.channels("part", a, 0, 4)
    joined = maps.concat("joined", maps.made(x, "c"), a)
    params = maps._params("same", [[0, 1, 0]])
    maps.builder.add("q_requantize", [b, params], SAME, output="copy")
    result = rewritten(maps.builder.finish((whole, again, part, joined, "copy")), rng)
    assert result.producers["whole"].inputs == ("a", "b", "a.part")
    assert result.producers["again"].inputs == ("b.part", "a.part_1")
    assert result.producers["joined"].inputs == ("c", "a.part_2")
    assert result.producers["part"].op == "q_slice"
    assert result.producers["copy"].op == "q_requantize"


def test_what_exchanges_rows_and_columns_stores_no_columns(rng):
    maps = Maps()
    a = maps.made(maps.input("x", 4), "a")
    turned = {"split": (1, 4, 3, 5), "order": (0, 1, 3, 2), "shape": (1, 4, 5, 3)}
    params = maps._params("turned", [[0, 1, 0]])
    for name in "bc":
        maps.builder.add("q_permute", [a, params], {**turned, **SAME}, output=name)
    whole = maps.joined_columns("whole", "b", maps.made("c", "d"))
    result = rewritten(maps.builder.finish((whole, maps.joined_columns("other", a, a))), rng)
    assert result.producers["whole"].inputs == ("b.part", "d")
    assert result.producers["other"].inputs == ("a.part", "a.part_1")


def test_slices_of_whole_blocks_are_views_of_their_source(rng):
    maps = Maps()
    x = maps.input("x", 12)
    a = maps.made(x, "a")
    part, odd = maps.channels("part", a, 4, 12), maps.channels("odd", x, 8, 11)
    read = [maps.made(name, f"{name}.read") for name in (part, odd)]
    result = rewritten(maps.builder.finish(tuple(read)), rng)
    assert [op for op in ops(result) if op != "q_requantize"] == ["slice_view", "slice_view"]
    assert aliases_of(result)["part"] == ("a", 4 * 15)
    assert aliases_of(result)["odd"] == ("x", 8 * 15)


def test_parts_of_inputs_that_leave_are_copied(rng):
    maps = Maps()
    part = maps.channels("part", maps.input("x", 12), 4, 8)
    again = maps.slice("again", part, (0, 0, 0, 0), (1, 4, 3, 5))
    wide = maps.builder.add("reshape_view", [part], {"shape": (1, 4, 15, 1)}, output="wide")
    result = rewritten(maps.builder.finish((again, wide)), rng)
    assert ops(result) == ["q_slice", "slice_view", "reshape_view"]


def test_halves_that_are_joined_again_stay_where_they_are(rng):
    maps = Maps()
    a = maps.made(maps.input("x", 8), "a")
    left, right = maps.channels("left", a, 0, 4), maps.channels("right", a, 4, 8)
    same = maps.concat("same", left, right)
    swapped = maps.concat("swapped", right, left)
    other = maps.concat("other", left, maps.made(right, "new"))
    behind = maps.concat("behind", right, maps.made(left, "more"))
    result = rewritten(maps.builder.finish((same, swapped, other, behind)), rng)
    views = [node.inputs for node in result.nodes if node.op == "concat_view"]
    assert views == [
        ("left", "right"),
        ("right", "left.part"),
        ("left.part_1", "new"),
        ("right.part", "more"),
    ]


@pytest.mark.parametrize(
    ("begins", "ends", "first", "count"),
    [
        ((0, 0, 0, 0), (1, 10, 3, 5), 0, 3 * 15),
        ((0, 4, 0, 0), (1, 10, 3, 5), 15, 30),
        ((0, 4, 0, 0), (1, 7, 3, 5), 15, 15),
        ((0, 4, 1, 0), (1, 8, 3, 5), 20, 10),
        ((0, 8, 2, 1), (1, 10, 3, 4), 30 + 11, 3),
        ((0, 0, 1, 0), (1, 8, 3, 5), None, 0),
        ((0, 0, 0, 1), (1, 4, 3, 5), None, 0),
        ((0, 2, 0, 0), (1, 8, 3, 5), None, 0),
    ],
)
def test_runs_of_blocks(begins, ends, first, count):
    """In vectors of channels, where the part is one run of them."""
    kind = TensorType((1, 10, 3, 5), "int8", ActivationLayout(1, BLOCK))
    expected = None if first is None else (first * BLOCK, count * BLOCK)
    assert run_of_blocks(kind, begins, ends) == expected


def test_several_blocks_of_images_are_no_run_of_channels(rng):
    for batch, images, op in ((1, 2, "q_concat"), (2, 2, "concat_view"), (2, 4, "q_concat")):
        maps = Maps(batch, images)
        x = maps.input("x", 8)
        graph = maps.builder.finish((maps.concat("c", maps.made(x, "a"), maps.made(x, "b")),))
        assert ops(rewritten(graph, rng))[-1] == op
        kind = graph.types["a"]
        part = run_of_blocks(kind, (0, 4, 0, 0), (images, 8, 3, 5))
        assert (part is None) == (op == "q_concat")


def test_copies_that_change_nothing_vanish(rng):
    maps = Maps()
    a = maps.made(maps.input("x", 4), "a")
    params = maps._params("same", [[0, 1, 0]])
    maps.builder.add("q_requantize", [a, params], SAME, output="b")
    maps.builder.add("q_requantize", ["x", params], SAME, output="z")
    result = rewritten(maps.builder.finish(("b", "z")), rng)
    assert ops(result) == ["q_requantize", "reshape_view", "q_requantize"]


def test_pixels_of_few_channels_that_become_images_stay_where_they_are(rng):
    """The channels fill no block, but each pixel keeps its own."""
    maps = Maps()
    a = maps.made(maps.input("x", 3), "a")
    order = {"split": (3, 15), "order": (1, 0), "shape": (15, 3, 1, 1)}
    params = maps._params("turned", [[0, 1, 0]])
    maps.builder.add("q_permute", [a, params], {**order, **SAME}, output="y")
    result = rewritten(maps.builder.finish(("y",)), rng)
    assert ops(result) == ["q_requantize", "reshape_view"]
    moves = SameElements([result]).moves("a", "y")
    assert moves == (Move((3, 15), (1, 0)),), "the elements are in another order, the bytes are not"


def test_reshapes_within_the_accelerator_are_views(rng):
    """Of rows only; what the host reads, or what mixes channels, stays with the host."""
    builder = GraphBuilder("reshapes")
    builder.input("x", TensorType((1, 6, 4, 3), "int8"))
    builder.constant("params", np.array([[0, 1, 1]]))
    attrs = {**SAME, "zero_point": 1}

    def halved(source: str, name: str) -> str:
        return builder.add("q_requantize", [source, "params"], attrs, output=name)

    def reshaped(source: str, shape: tuple[int, ...], name: str) -> str:
        return builder.add("reshape", [source], {"shape": shape}, output=name)

    long = reshaped(halved("x", "a"), (1, 6, 12, 1), "long")
    before = reshaped("x", (1, 6, 2, 6), "before")
    mixed = reshaped("a", (1, 12, 3, 2), "mixed")
    last = reshaped(halved(long, "b"), (1, 6, 3, 4), "last")
    outputs = (halved(before, "c"), halved(mixed, "d"), long, last)
    graph = builder.finish(outputs)
    blocked = to_blocked(graph, block_in=BLOCK, block_out=BLOCK)
    verify(blocked)
    assert [node.output for node in blocked.nodes if node.op == "reshape_view"] == ["long.blocked"]
    values = {"x": rng.integers(-128, 128, (1, 6, 4, 3)).astype(np.int8)}
    expected = run(graph, values)
    for name, found in run(blocked, values).items():
        np.testing.assert_array_equal(found, expected[name])


@pytest.mark.parametrize("channels", [4, 2], ids=["whole blocks", "halves of blocks"])
def test_blocks_of_channels_become_images_only_whole(channels, rng):
    """And images become blocks again; a half of a block is no image of its own."""
    builder = GraphBuilder("images")
    shape, images = (1, 8, 4, 3), (8 // channels, channels, 4, 3)
    builder.input("x", TensorType(shape, "int8"))
    builder.constant("params", np.array([[0, 1, 1]]))
    source = builder.add("q_requantize", ["x", "params"], SAME, output="a")
    for name, form in (("b", images), ("c", shape)):
        view = builder.add("reshape", [source], {"shape": form}, output=f"{name}.x")
        source = builder.add("q_requantize", [view, "params"], SAME, output=name)
    graph = builder.finish((source,))
    blocked = to_blocked(graph, block_in=BLOCK, block_out=BLOCK)
    check_equal(graph, blocked, rng)
    assert ("reshape_view" in ops(blocked)) == (channels == BLOCK)
