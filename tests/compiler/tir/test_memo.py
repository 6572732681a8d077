"""What is kept in a node, and for how long."""

from dataclasses import dataclass, replace

from daedal.compiler.tir.memo import Memo


@dataclass(frozen=True)
class Node:
    value: int


def test_a_node_is_asked_once() -> None:
    asked: list[int] = []

    @Memo
    def doubled(node: Node) -> int:
        """Twice the value."""
        asked.append(node.value)
        return node.value * 2

    node = Node(3)
    assert [doubled(node), doubled(node), doubled(Node(3))] == [6, 6, 6]
    assert asked == [3, 3], "an equal node is another one"
    assert node == Node(3) and repr(node) == "Node(value=3)", "what is kept is not part of it"
    assert doubled(replace(node, value=4)) == 8


def test_a_result_may_be_none_and_may_be_given() -> None:
    asked: list[int] = []

    @Memo
    def nothing(node: Node) -> None:
        asked.append(node.value)

    node, other = Node(1), Node(2)
    nothing(node)
    nothing(node)
    nothing.remember(other, None)
    nothing(other)
    assert asked == [1]


def test_two_functions_keep_apart() -> None:
    first = Memo(lambda node: node.value + 1)

    @Memo
    def second(node: Node) -> int:
        return node.value + 2

    node = Node(0)
    assert (first(node), second(node)) == (1, 2)
