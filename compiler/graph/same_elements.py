"""Which tensors hold the same elements, and in which order.

Passes replace tensors by views of them, so the tensors that a launch reads and writes often do not
exist in the model. `SameElements` finds the model's tensor with the same elements, and the
sequence of reshapes and transposes from one to the other. Where there is none, it finds one that
contains the elements, or one that they contain.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from daedal.artifact.artifact import Counterpart, Move
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import SAME_ORDER
from daedal.compiler.graph.types import TensorType

__all__ = ["SameElements", "is_host_view"]

_HOST_VIEWS = frozenset({*SAME_ORDER, "transpose"})


def is_host_view(node: Node) -> bool:
    """Whether the driver does the work of `node` while it transfers a tensor, so that no host model
    needs it."""
    return node.op in _HOST_VIEWS


class SameElements:
    """Tensors related by views, over all graphs of one compilation.

    A name means the same tensor in all of these graphs. Later graphs may lack it.
    """

    def __init__(self, graphs: Iterable[Graph] = ()) -> None:
        self._steps: dict[str, dict[str, tuple[Move, ...]]] = {}
        self._parts: dict[str, dict[str, Move]] = {}
        self._origins: dict[str, dict[str, Move]] = {}
        for graph in graphs:
            self.add(graph)

    def add(self, graph: Graph) -> None:
        """Add the views of `graph`."""
        for view in graph.views:
            move = Move(view.shape, view.order, view.box)
            if view.box:
                self._parts.setdefault(view.source, {}).setdefault(view.target, move)
                self._origins.setdefault(view.target, {}).setdefault(view.source, move)
            elif view.order == tuple(range(len(view.order))):
                self._connect(view.source, view.target, (), ())
            else:
                self._connect(view.source, view.target, (move,), (_inverse(move),))

    def names(self, name: str) -> tuple[str, ...]:
        """All tensors with the elements of `name`; `name` itself is the first."""
        return tuple(self._paths(name))

    def wholes(self, name: str) -> tuple[str, ...]:
        """All tensors that have the elements of `name`, and perhaps others; `name` is the first."""
        found = self._paths(name)
        origins = (origin for part in found for origin in self._origins.get(part, {}))
        return tuple(
            dict.fromkeys([*found, *(name for item in origins for name in self._paths(item))])
        )

    def moves(self, source: str, target: str) -> tuple[Move, ...]:
        """The moves that turn `source` into `target`, which is one of its `names`."""
        return _shortened(self._paths(source)[target])

    def counterpart(self, name: str, known: Mapping[str, TensorType]) -> Counterpart | None:
        """A tensor in `known` with the elements of `name`, or else one that is a part of `name`, or
        that `name` is a part of."""
        return next((item for item in self._counterparts(name, known) if item.name in known), None)

    def _counterparts(self, name: str, known: Mapping[str, TensorType]) -> Iterator[Counterpart]:
        paths = self._paths(name)
        for equal, moves in paths.items():
            yield Counterpart(equal, _shortened(moves))
        for whole, moves in paths.items():
            for part, move in self._parts.get(whole, {}).items():
                for target, more in self._paths(part).items():
                    yield Counterpart(target, (*_shortened(moves), move, *_shortened(more)))
        for part, moves in paths.items():
            for origin, move in self._origins.get(part, {}).items():
                for whole in self._in_same_shape(origin, move.shape, known):
                    yield Counterpart(whole, _shortened(moves), move.box)

    def _in_same_shape(
        self, name: str, shape: tuple[int, ...], known: Mapping[str, TensorType]
    ) -> Iterator[str]:
        """The tensors in `known` that are equal to `name`, which is of `shape`, in every place."""
        for other, moves in self._paths(name).items():
            if other in known and known[other].shape == shape and not _shortened(moves):
                yield other

    def _connect(
        self, source: str, target: str, there: tuple[Move, ...], back: tuple[Move, ...]
    ) -> None:
        self._steps.setdefault(source, {}).setdefault(target, there)
        self._steps.setdefault(target, {}).setdefault(source, back)

    def _paths(self, start: str) -> dict[str, tuple[Move, ...]]:
        """The moves from `start` to each tensor with its elements, the nearest first."""
        found: dict[str, tuple[Move, ...]] = {start: ()}
        queue = deque([start])
        while queue:
            name = queue.popleft()
            for other, moves in self._steps.get(name, {}).items():
                if other not in found:
                    found[other] = found[name] + moves
                    queue.append(other)
        return found


def _inverse(move: Move) -> Move:
    """The move back."""
    return Move(_moved_shape(move), tuple(int(axis) for axis in np.argsort(move.order)))


def _moved_shape(move: Move) -> tuple[int, ...]:
    return tuple(move.shape[axis] for axis in move.order)


def _shortened(moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """The same moves with adjacent ones merged, and those that change nothing removed."""
    found: list[Move] = []
    for move in moves:
        if found and _moved_shape(found[-1]) == move.shape:
            last = found.pop()
            move = Move(last.shape, tuple(last.order[axis] for axis in move.order))
        if move.order != tuple(range(len(move.order))):
            found.append(move)
    return tuple(found)
