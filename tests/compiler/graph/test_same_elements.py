"""Views that connect tensors, over several graphs: the moves from one tensor to another."""

import numpy as np

from daedal.artifact.artifact import Counterpart, Move
from daedal.compiler.graph import GraphBuilder, TensorType
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.same_elements import SameElements


def chain() -> Graph:
    """a (2, 3, 4) -> b (2, 4, 3) -> c (8, 3) -> d (3, 8), and e, which is computed from d."""
    builder = GraphBuilder("chain")
    builder.input("a", TensorType((2, 3, 4), "float32"))
    builder.add("transpose", ["a"], {"order": (0, 2, 1)}, output="b")
    builder.add("reshape", ["b"], {"shape": (8, 3)}, output="c")
    builder.add("transpose", ["c"], {"order": (1, 0)}, output="d")
    builder.add("relu", ["d"], output="e")
    return builder.finish(["e"])


def later() -> Graph:
    """A graph that was made from `chain`: c is gone, d is computed otherwise."""
    builder = GraphBuilder("later")
    builder.input("a", TensorType((2, 3, 4), "float32"))
    builder.add("reshape", ["a"], {"shape": (2, 3, 2, 2)}, output="f")
    builder.add("transpose", ["f"], {"order": (1, 0, 2, 3)}, output="g")
    builder.add("reshape", ["g"], {"shape": (3, 8)}, output="d")
    builder.add("relu", ["d"], output="e")
    return builder.finish(["e"])


def moved(array: np.ndarray, moves: tuple[Move, ...]) -> np.ndarray:
    for move in moves:
        array = array.reshape(move.shape).transpose(move.order)
    return array


def test_every_tensor_from_every_other() -> None:
    a = np.arange(24).reshape(2, 3, 4)
    values = {"a": a, "b": a.transpose(0, 2, 1)}
    values["c"] = values["b"].reshape(8, 3)
    values["d"] = values["c"].T
    values["f"] = a.reshape(2, 3, 2, 2)
    values["g"] = values["f"].transpose(1, 0, 2, 3)
    same = SameElements([chain(), later()])
    for source in values:
        assert set(same.names(source)) == set(values)
        assert same.names(source)[0] == source
        for target in values:
            found = moved(values[source], same.moves(source, target))
            np.testing.assert_array_equal(found.reshape(-1), values[target].reshape(-1))
    assert same.names("e") == ("e",)


def test_moves_are_joined() -> None:
    """Two transposes with nothing between them are one, or none."""
    builder = GraphBuilder("twice")
    builder.input("a", TensorType((2, 3, 4), "float32"))
    builder.add("transpose", ["a"], {"order": (1, 2, 0)}, output="b")
    builder.add("transpose", ["b"], {"order": (1, 2, 0)}, output="c")
    builder.add("transpose", ["c"], {"order": (1, 2, 0)}, output="d")
    same = SameElements([builder.finish(["d"])])
    assert same.moves("a", "c") == (Move((2, 3, 4), (2, 0, 1)),)
    assert same.moves("c", "a") == (Move((4, 2, 3), (1, 2, 0)),)
    assert same.moves("a", "d") == ()


def test_what_is_computed_is_not_the_same() -> None:
    same = SameElements([chain()])
    assert "e" not in same.names("d") and "d" not in same.names("e")


def test_a_part_of_a_tensor_in_another_form() -> None:
    """It is compared with the model's tensor only if that is equal in every place."""
    kind = TensorType((1, 6, 4, 4), "float32")
    builder = GraphBuilder("parts")
    builder.input("a", kind)
    builder.add("reshape", ["a"], {"shape": kind.shape}, output="same")
    builder.add("reshape", ["a"], {"shape": (1, 3, 8, 4)}, output="reshaped")
    builder.add("transpose", ["a"], {"order": (0, 1, 3, 2)}, output="turned")
    box = ((0, 1), (0, 3), (0, 4), (0, 4))
    for name in ("same", "reshaped", "turned"):
        builder.remember_part(name, f"{name}.part", builder.types[name].shape, box)
    same = SameElements([builder.finish(["a"])])
    found = {name: same.counterpart(f"{name}.part", {"a": kind}) for name in builder.types}
    assert found == {"a": None, "same": Counterpart("a", (), box), "reshaped": None, "turned": None}


def test_what_has_the_elements_of_a_part() -> None:
    builder = GraphBuilder("parts")
    builder.input("a", TensorType((2, 3), "float32"))
    builder.add("reshape", ["a"], {"shape": (6,)}, output="b")
    builder.add("relu", ["b"], output="c")
    builder.remember_part("b", "part", (6,), ((0, 2),))
    graph = builder.finish(["c"])
    same = SameElements([graph])
    assert same.wholes("part") == ("part", "b", "a")
    assert same.wholes("c") == ("c",)
