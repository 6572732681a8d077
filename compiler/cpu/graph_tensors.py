"""`GraphTensors`: operators of the graph become tensor expressions of a program."""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import onnx

from daedal.artifact.constants import Change, changed_kind
from daedal.compiler import te
from daedal.compiler.cpu.program import Computed, Joined, TensorProgram, View, own_name
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import PARAMETER_DTYPE
from daedal.compiler.ops.graph.elementwise import computed_on_maps
from daedal.compiler.ops.graph.factors import Factors
from daedal.compiler.ops.graph.maps import Map, MapLayout, from_plain, is_map, to_plain
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.ops.graph.table import LOWERINGS
from daedal.compiler.ops.onnx.operation import Operand, ResultType, buffer_shape
from daedal.compiler.te.lower import topological
from daedal.compiler.tir.expr import Expr

__all__ = ["GraphTensors", "is_parameter"]


def is_parameter(graph: Graph, name: str) -> bool:
    """Whether a constant has parameters of integer operators, which have it in their formulas."""
    return graph.types[name].dtype == PARAMETER_DTYPE and all(
        node.op.startswith("q_") for node in graph.users[name]
    )


class GraphTensors:
    """The tensors that operators of the graph read and write (`compiler.ops.graph.operation`).

    A map has its channels last as long as only such operators read it; its elements in the order
    of its axes are a tensor of their own, which is computed where something reads it.

    Parameters
    ----------
    program : what is added to.
    number : gives a number that no other tensor has.
    factors : how the processors multiply 8-bit integers.
    layout : of maps.
    check : raises UnsupportedError for a tensor whose formula has no code.
    """

    def __init__(
        self,
        program: TensorProgram,
        number: Callable[[], int],
        factors: Factors,
        layout: MapLayout,
        check: Callable[[te.Tensor], None],
    ) -> None:
        self.factors = factors
        self.layout = layout
        self._check = check
        self._program = program
        self._number = number
        self._needed_by = ""
        self._maps: dict[str, Map] = {}
        self._known: dict[tuple[Hashable, ...], te.Tensor] = {}
        self._checked: set[te.Tensor] = set()

    def add(self, graph: Graph, node: Node) -> bool:
        """Add a node of a graph; returns whether it has such tensor expressions."""
        self._needed_by = node.outputs[0]
        lowering = LOWERINGS.get(node.op)
        operation = GraphOperation(graph, node, self)
        if lowering is None or not lowering.suits(operation):
            return False
        name, kind = node.output, graph.types[node.output]
        tensor = lowering.lower(operation)
        if is_map(kind) and not lowering.in_order:
            self._add_map(name, Map(tensor, kind.shape))
        else:
            self._add_tensor(name, tensor, kind.shape)
        return True

    def add_node(
        self, node: onnx.NodeProto, operands: Mapping[str, Operand], result: ResultType
    ) -> bool:
        """Add a node of ONNX, whose `operands` are given by name, if it computes element by element
        from maps; returns whether it does."""
        self._needed_by = node.output[0]
        prefix = f"t{self._number()}"
        found = computed_on_maps(self, node, self._program.opset, operands, result, prefix)
        if found is None:
            return False
        self._add_map(node.output[0], found)
        return True

    def _add_map(self, name: str, found: Map) -> None:
        """Define a map, and its elements in the order of its axes."""
        self._maps[name] = found
        self._add_tensor(name, to_plain(found, self.layout, self.compute), found.shape)

    def _add_tensor(self, name: str, tensor: te.Tensor, shape: Sequence[int]) -> None:
        for item in topological([tensor], self._checked):
            self._check(item)
            self._checked.add(item)
        self._define(name, tensor, shape)

    def plain(self, name: str) -> te.Tensor:
        """See `Tensors.plain`."""
        return self._program.tensors[name]

    def map(self, name: str) -> Map:
        """See `Tensors.map`."""
        if name not in self._maps:
            shape = self._program.types[name].shape
            self._maps[name] = from_plain(self.plain(name), shape, self.layout, self.compute)
        return self._maps[name]

    def has_map(self, name: str) -> bool:
        """See `Tensors.has_map`."""
        return name in self._maps

    def joined(self, tensors: Sequence[te.Tensor], axis: int) -> te.Tensor:
        """See `Tensors.joined`."""
        names = [self._own() for _ in tensors]
        for name, tensor in zip(names, tensors, strict=True):
            self._define(name, tensor, tensor.shape)
        first = tensors[0]
        axis %= len(first.shape)
        total = sum(tensor.shape[axis] for tensor in tensors)
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        name, result = self._own(), te.placeholder(shape, first.dtype, f"p{self._number()}")
        self._program.tensors[name] = result
        self._program.types[name] = ResultType(shape, first.dtype)
        self._program.steps.append(Joined(name, tuple(names), axis))
        return result

    def viewed(self, tensor: te.Tensor, shape: Sequence[int]) -> te.Tensor:
        """See `Tensors.viewed`."""
        source, name = self._own(), self._own()
        self._define(source, tensor, tensor.shape)
        view = te.placeholder(tuple(shape), tensor.dtype, f"p{self._number()}")
        self._program.tensors[name] = view
        self._program.types[name] = ResultType(tuple(shape), tensor.dtype)
        self._program.steps.append(View(name, source))
        return view

    def once(self, key: tuple[Hashable, ...], make: Callable[[], te.Tensor]) -> te.Tensor:
        """See `Tensors.once`."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def table(
        self, value: Array, changes: Sequence[Change] = (), *, laid_out: bool = True
    ) -> te.Tensor:
        """See `Tensors.table`."""
        shape, dtype = changed_kind(value.shape, value.dtype.name, changes)
        name = self._own()
        tensor = te.placeholder(shape, dtype, f"p{self._number()}")
        self._program.tensors[name] = tensor
        self._program.types[name] = ResultType(shape, dtype)
        if changes:
            self._program.changed[tensor] = value, tuple(changes)
        else:
            self._program.constants[name] = np.ascontiguousarray(value)
        if laid_out:
            self._program.laid_out.add(tensor)
        return tensor

    def compute(self, shape: Sequence[int], formula: Callable[..., Expr]) -> te.Tensor:
        """See `Tensors.compute`."""
        return te.compute(buffer_shape(shape), formula, f"q{self._number()}")

    def _own(self) -> str:
        return own_name(self._number(), self._needed_by)

    def _define(self, name: str, tensor: te.Tensor, shape: Sequence[int]) -> None:
        kind = ResultType(tuple(shape), tensor.dtype)
        self._program.tensors[name] = tensor
        self._program.types[name] = kind
        self._program.steps.append(Computed((name,), (tensor,)))
