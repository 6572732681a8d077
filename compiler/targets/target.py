"""`Target`: what runs a part of a network, and the register of all targets.

`partition` asks the targets which nodes they run and at what cost, and cuts a graph into parts of
one target each; `compiler.pipeline` lets each target compile its parts. At run time, what
`daedal.runtime.target_parts` knows under the target's name runs the part.

An operator of the graph lists the targets of the kit that run it (`OpDef.targets`). Another target
says itself what it runs.
"""

from typing import TYPE_CHECKING

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op

if TYPE_CHECKING:
    from daedal.compiler.graph.passes.partition import Part
    from daedal.compiler.layers.launch import CompiledLaunch
    from daedal.compiler.targets.tools import Tools

__all__ = ["Target", "add_target", "get_target", "targets_of"]


class Target:
    """What runs a part of a network.

    Attributes
    ----------
    name : one word, in the names of parts and in artifacts.
    title : what it is, for listings.
    bytes_per_second : at which it exchanges tensors with other targets.
    """

    name: str
    title: str
    bytes_per_second = 0.8e9

    def lacks(self, graph: Graph, node: Node) -> str:
        """Why it cannot run `node`: one clause; empty if it can."""
        runs = self.name in get_op(node.op).targets
        return "" if runs else f"{self.title} has no operator {node.op}"

    def seconds(self, graph: Graph, node: Node) -> float:
        """About how long it takes for `node`, without transfers: 0 where it alone can run it."""
        return 0.0

    def crossing_seconds(self, size_bytes: int) -> float:
        """About how long it takes to bring so many bytes from another target."""
        return size_bytes / self.bytes_per_second

    def compile(self, part: "Part", tools: "Tools") -> "CompiledLaunch | bytes | None":
        """The code of a part; bytes are for `daedal.runtime.target_parts`.

        None where it is compiled later from the model: on processors.

        Raises UnfitLayers for layers that do not fit the target.
        """
        raise NotImplementedError


_TARGETS: dict[str, Target] = {}


def add_target(target: Target) -> None:
    """Let partitions use `target`, too."""
    assert target.name not in _known(), f"target {target.name} is defined twice"
    _TARGETS[target.name] = target


def get_target(name: str) -> Target:
    """The target called `name`."""
    return _known()[name]


def targets_of(graph: Graph, node: Node) -> tuple[Target, ...]:
    """Those that run `node`: first those that its operator lists, in that order."""
    known = _known()
    listed = get_op(node.op).targets
    others = [name for name in known if name not in listed]
    found = (known[name] for name in (*listed, *others))
    return tuple(target for target in found if not target.lacks(graph, node))


def _known() -> dict[str, Target]:
    """All targets; those of the kit are added when they are first needed, as they import passes."""
    if not _TARGETS:
        from daedal.compiler.targets.accelerator import Accelerator
        from daedal.compiler.targets.cpu import Cpu

        _TARGETS.update({target.name: target for target in (Accelerator(), Cpu())})
    return _TARGETS
