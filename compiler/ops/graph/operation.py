"""`GraphOperation`: a node of the graph with all that its tensor expressions depend on."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from daedal.artifact.constants import Change
from daedal.compiler import te
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.types import TensorType
from daedal.compiler.ops.graph.factors import Factors
from daedal.compiler.ops.graph.maps import LANES, Map, MapLayout, is_map
from daedal.compiler.tir.expr import Expr

__all__ = ["GraphLowering", "GraphOperation", "Tensors"]


class Tensors(Protocol):
    """The tensors of a network so far.

    Attributes
    ----------
    factors : how the processors that it is compiled for multiply.
    layout : of maps.
    """

    factors: Factors
    layout: MapLayout

    def plain(self, name: str) -> te.Tensor:
        """A tensor whose elements lie in the order of its axes."""

    def map(self, name: str) -> Map:
        """A map with its channels last."""

    def has_map(self, name: str) -> bool:
        """Whether a map lies so already."""

    def viewed(self, tensor: te.Tensor, shape: Sequence[int]) -> te.Tensor:
        """The elements of `tensor`, which is in memory from now on, in another shape."""

    def table(
        self, value: Array, changes: Sequence[Change] = (), *, laid_out: bool = True
    ) -> te.Tensor:
        """An input that holds a constant, or what `changes` make of it where code is loaded;
        `laid_out`: kernels read it as it lies, else as suits them."""

    def once(self, key: tuple[Hashable, ...], make: Callable[[], te.Tensor]) -> te.Tensor:
        """What `make` gives, the same for equal keys: a tensor that several operators read."""

    def joined(self, tensors: Sequence[te.Tensor], axis: int) -> te.Tensor:
        """`tensors`, which are in memory from now on, one after the other along `axis`."""

    def compute(self, shape: Sequence[int], formula: Callable[..., Expr]) -> te.Tensor:
        """`te.compute` with a name that no other tensor has."""


@dataclass(frozen=True)
class GraphOperation:
    """A node, and the graph and the tensors around it."""

    graph: Graph
    node: Node
    tensors: Tensors

    @property
    def kind(self) -> TensorType:
        """The type of the result."""
        return self.graph.types[self.node.output]

    @property
    def layout(self) -> MapLayout:
        """Of maps."""
        return self.tensors.layout

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in memory of the result, a map."""
        return self.layout.shape(self.kind.shape)

    def type(self, index: int) -> TensorType:
        """The type of operand number `index`."""
        return self.graph.types[self.node.inputs[index]]

    def constant(self, index: int) -> Array:
        """The value of operand number `index`."""
        return self.graph.constant(self.node.inputs[index])

    def whole(self, name: str) -> int:
        """An attribute that is a number."""
        value = self.node.attrs[name]
        assert isinstance(value, int)
        return value

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that has several numbers."""
        value = self.node.attrs[name]
        assert isinstance(value, tuple)
        return value

    def map(self, index: int) -> Map:
        """Operand number `index`, a map."""
        return self.tensors.map(self.node.inputs[index])

    def has_map(self, index: int) -> bool:
        """Whether operand number `index` has its channels last already."""
        return self.tensors.has_map(self.node.inputs[index])

    def reads_map(self, index: int) -> bool:
        """Whether operand number `index`, of which each element is read many times, is read with
        its channels last: it lies so, or it has so many channels that a copy pays."""
        return self.has_map(index) or self.type(index).shape[1] >= LANES

    def tensor(self, index: int) -> te.Tensor:
        """Operand number `index`, as a map if the result is one."""
        name = self.node.inputs[index]
        return self.tensors.map(name).tensor if is_map(self.kind) else self.tensors.plain(name)

    def plain(self, index: int) -> te.Tensor:
        """Operand number `index` in the order of its axes."""
        return self.tensors.plain(self.node.inputs[index])

    def compute(self, shape: Sequence[int], formula: Callable[..., Expr]) -> te.Tensor:
        """A tensor of this node."""
        return self.tensors.compute(shape, formula)

    def per_channel(self, values: Array, dtype: str) -> te.Tensor:
        """A constant with a value per channel, (blocks, lanes), 0 behind them."""
        return self.tensors.table(self.layout.values(values.astype(dtype)))


@dataclass(frozen=True)
class GraphLowering:
    """How processors compute an operator.

    Attributes
    ----------
    lower : the result, a map (N, H, W, blocks, lanes) if its type has four dimensions, else plain.
    lacks : why an integer node cannot be computed, a clause; empty where it can.
    suits : whether a float node is computed so; else it is written as ONNX.
    in_order : whether the result is plain whatever its type.
    """

    lower: Callable[[GraphOperation], te.Tensor]
    lacks: Callable[[Graph, Node], str] = lambda _graph, _node: ""
    suits: Callable[[GraphOperation], bool] = lambda _operation: True
    in_order: bool = False
