"""Inlines a model's own functions. The file is untrusted.

Input: a ModelProto that passed `check_functions` and then onnx's checker, which by itself would
recurse without limit. Output: the same model without functions.
"""

from collections.abc import Iterable, Iterator

import onnx
import onnx.inliner

from daedal.common.errors import ModelError, first_line
from daedal.compiler.frontend.bounds import MAX_NODES

__all__ = ["MAX_CALL_DEPTH", "check_functions", "inline_functions"]

MAX_CALL_DEPTH = 64

_Key = tuple[str, str, str]


def check_functions(model: onnx.ModelProto) -> None:
    """Refuse functions that could not be inlined within bounds.

    Raises
    ------
    ModelError
        For functions that call themselves or nest too deeply, and if inlining would give more than
        `MAX_NODES` nodes: functions that call others twice double them at every level.
    """
    nodes, _ = _Sizes(model.functions).of(model.graph.node)
    if nodes > MAX_NODES:
        raise ModelError(
            f"a model must have at most {MAX_NODES} nodes with its functions inlined, not "
            f"{nodes}; split it"
        )


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every call of a function of its own replaced by the function's nodes.

    Raises ModelError for calls that do not fit their functions.
    """
    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"functions of a model must fit where they are called, and these do not: "
            f"{first_line(error)}; inline them at export"
        ) from error


class _Sizes:
    """The number of nodes that calls expand to, and their depth."""

    def __init__(self, functions: Iterable[onnx.FunctionProto]) -> None:
        self._functions = {(item.domain, item.name, item.overload): item for item in functions}
        self._known: dict[_Key, tuple[int, int]] = {}
        self._open: list[_Key] = []

    def of(self, nodes: Iterable[onnx.NodeProto]) -> tuple[int, int]:
        """Number and depth of `nodes` after inlining their calls."""
        total, depth = 0, 0
        for node in _with_inner(nodes):
            key = (node.domain, node.op_type, node.overload)
            size, below = self._of_function(key) if key in self._functions else (1, 0)
            total += size
            depth = max(depth, below)
        return total, depth

    def _of_function(self, key: _Key) -> tuple[int, int]:
        if key in self._open or len(self._open) >= MAX_CALL_DEPTH:
            self._refuse(key)
        if key not in self._known:
            self._open.append(key)
            size, depth = self.of(self._functions[key].node)
            self._open.pop()
            if depth >= MAX_CALL_DEPTH:
                self._refuse(key)
            self._known[key] = size, depth + 1
        return self._known[key]

    def _refuse(self, key: _Key) -> None:
        raise ModelError(
            f"functions of a model must not call each other deeper than {MAX_CALL_DEPTH} levels, "
            f"and {key[1]!r} does; inline them at export"
        )


def _with_inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of the graphs in their attributes."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _with_inner(graph.node)
