"""`import_model`: an ONNX model becomes tensor expressions.

Input: a checked model. Output: a `TensorProgram`, whose steps are nodes in order: tensor
expressions, views of the same elements in another shape, joined tensors, or nodes to interpret.
Nodes of constants are evaluated.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from daedal.common.errors import ModelError, UserError, first_line
from daedal.compiler import te
from daedal.compiler.codegen.llvm.support import check_code
from daedal.compiler.cpu.attentions import attended, with_float32
from daedal.compiler.cpu.branches import branch_graph
from daedal.compiler.cpu.expansion import expanded
from daedal.compiler.cpu.fusion import is_move
from daedal.compiler.cpu.graph import processor_graph
from daedal.compiler.cpu.graph_tensors import GraphTensors, is_parameter
from daedal.compiler.cpu.program import (
    OWN,
    STANDARD,
    Computed,
    Interpreted,
    Joined,
    TensorProgram,
    View,
    own_name,
)
from daedal.compiler.cpu.types import Types
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.shapes import bind_shapes
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.foreign import evaluate_onnx, is_random, names_read
from daedal.compiler.graph.ops.onnx_form import OnnxForm
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.types import MAX_ELEMENTS
from daedal.compiler.ops.attended import Attended
from daedal.compiler.ops.graph.factors import PAIRS, Factors
from daedal.compiler.ops.graph.integer_convolution import LOWERINGS as INTEGER_PRODUCTS
from daedal.compiler.ops.graph.maps import BLOCKED, MapLayout
from daedal.compiler.ops.onnx.lower import lower_node
from daedal.compiler.ops.onnx.movement import splits_dimensions
from daedal.compiler.ops.onnx.operation import Operand, ResultType, buffer_shape
from daedal.compiler.te.lower import topological
from daedal.compiler.tir.dtype import DTYPES
from daedal.compiler.tir.visit import loads

__all__ = ["import_model"]

Array = npt.NDArray[Any]

MAX_FOLDED_ELEMENTS = 1 << 24
MAX_SELECTED = 8
"""Most operands of a Concat that is a formula, which chooses one for each element."""
_PARTS = ("steps", "tensors", "types", "constants")
"""What an import adds to."""
_VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"))
"""Operators that keep the order of the elements, with the operand first."""


class ImportedModel:
    """A model whose tensor expressions can be made for several kinds of processors.

    Parameters
    ----------
    model : checked.
    shapes : of inputs, where the model says none.
    imported : the model as a graph, where it was made from one.

    Raises
    ------
    ModelError
        For a damaged model, and for shapes that contradict it.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        shapes: Mapping[str, Sequence[int]] | None = None,
        imported: Graph | None = None,
    ) -> None:
        self._model = bind_shapes(model, shapes or {}, empty=True)
        self._graph = processor_graph(self._model, imported)

    @property
    def multiplies_integers(self) -> bool:
        """Whether the expressions depend on how 8-bit integers are multiplied."""
        nodes = () if self._graph is None else self._graph.nodes
        return any(node.op in INTEGER_PRODUCTS for node in nodes)

    def program(
        self,
        factors: Factors = PAIRS,
        check: Callable[[te.Tensor], None] = check_code,
        *,
        layout: MapLayout = BLOCKED,
        attentions: bool = False,
    ) -> TensorProgram:
        """The tensor expressions, for processors that multiply 8-bit integers as `factors` says,
        with maps of a `layout`.

        `check` raises UnsupportedError for a tensor whose formula has no code; its node is
        interpreted. With `attentions`, those of the model are found, as the graph defines them.

        Raises ModelError for a damaged model.
        """
        importer = _Importer(self._model, factors, layout, check)
        nodes = self._model.graph.node
        if self._graph is None:
            importer.add(nodes)
        else:
            importer.add_graph(self._graph)
            importer.add(importer.missing(nodes))
        if attentions and {"MatMul", "Softmax"} <= {node.op_type for node in nodes}:
            importer.program.attentions += _attentions(self._graph, self._model, importer.program)
        return importer.program


def import_model(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None = None,
    factors: Factors = PAIRS,
    imported: Graph | None = None,
    check: Callable[[te.Tensor], None] = check_code,
    *,
    layout: MapLayout = BLOCKED,
    attentions: bool = False,
) -> TensorProgram:
    """The tensor expressions of a model for one kind of processors: see `ImportedModel`."""
    imported_model = ImportedModel(model, shapes, imported)
    return imported_model.program(factors, check, layout=layout, attentions=attentions)


def _attentions(
    graph: Graph | None, model: onnx.ModelProto, program: TensorProgram
) -> tuple[Attended, ...]:
    """Those of a model; none where it cannot be a graph."""
    try:
        found = load_onnx(with_float32(model)) if graph is None else graph
        return attended(found, program.tensors)
    except UserError:
        return ()


def _is_kept(node: onnx.NodeProto) -> bool:
    """Whether a node is not evaluated now: its result is random, or it may never end."""
    if is_random(node.op_type) or node.op_type in ("Loop", "Scan"):
        return True
    return any(
        _is_kept(inner)
        for attribute in node.attribute
        for graph in (attribute.g, *attribute.graphs)
        for inner in graph.node
    )


def _value(tensor: onnx.TensorProto) -> Array:
    """An initializer's value. Raises ModelError for one that is damaged."""
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            "a tensor must have a type and as many values as its dimensions say, but "
            f"{tensor.name!r} of {list(tensor.dims)} has not; export the model again"
        ) from error


class _Importer:
    def __init__(
        self,
        model: onnx.ModelProto,
        factors: Factors,
        layout: MapLayout,
        check: Callable[[te.Tensor], None],
    ) -> None:
        graph = model.graph
        opsets = tuple((item.domain, item.version) for item in model.opset_import)
        given = {item.name for item in graph.initializer}
        self.program = TensorProgram(
            opsets,
            tuple(item.name for item in graph.input if item.name not in given),
            tuple(item.name for item in graph.output),
        )
        self._types = Types(model)
        self._numbers = 0
        self._check = check
        self._maps = GraphTensors(self.program, self._next, factors, layout, check)
        for item in graph.initializer:
            self._add_constant(item.name, _value(item))
        for name in self.program.inputs:
            if not self._add_empty(name):
                self._add_placeholder(name, self._types.static(name))

    def add(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Add nodes of the model, in order."""
        for node in nodes:
            self._add(node)

    def add_graph(self, graph: Graph) -> None:
        """Add a graph; operators without tensor expressions of their own are written as ONNX."""
        program = self.program
        for name, kind in graph.types.items():  # 8-bit tensors may have others than the model's
            self._types.set(name, ResultType(kind.shape, kind.dtype))
        for name, value in graph.constants.items():
            if name not in program.constants and not is_parameter(graph, name):
                self._add_constant(name, value)
        needed_by = ""
        form = OnnxForm(graph, program.opset, lambda: own_name(self._next(), needed_by))
        for node in graph.nodes:
            needed_by = node.outputs[0]
            if node.output in program.types:  # another name of a tensor that was read before
                continue
            if self._maps.add(graph, node):
                continue
            write = get_op(node.op).onnx
            assert write is not None, f"{node} has no form in ONNX"
            write(form, node)
            self._add_form(form)

    def _add_form(self, form: OnnxForm) -> None:
        """Add what was written since the last time."""
        for name, value in form.constants.items():
            self._add_constant(name, value)
        self.add(form.nodes)
        form.clear()

    def missing(self, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
        """Those of `nodes` that the outputs need and that are not there yet, in order."""
        wanted, found = set(self.program.outputs), list[onnx.NodeProto]()
        known = self.program.types.keys() | self.program.constants.keys()
        for node in reversed(nodes):
            if any(name in wanted and name not in known for name in node.output):
                found.append(node)
                wanted.update(names_read(node))
        return found[::-1]

    def _add(self, node: onnx.NodeProto) -> None:
        self._types.infer(node, self.program.constants)
        if self._emptied(node):
            return
        if any(take(node) for take in (self._folded, self._viewed, self._joined, self._taken)):
            return
        try:
            self._compute(node)
        except (UserError, RecursionError, MemoryError) as error:
            if not self._expand(node):
                self._interpret(node, first_line(error))

    def _expand(self, node: onnx.NodeProto) -> bool:
        """Compile the operators that define this one; nothing is done where one is interpreted."""
        program = self.program
        types = [self._types.proto(name) if name else onnx.TypeProto() for name in node.input]
        nodes = expanded(node, program.opset, types, own_name(self._next(), node.output[0]))
        if nodes is None:
            return False
        before = copy(program)
        for part in _PARTS:
            setattr(program, part, copy(getattr(program, part)))
        for inner in nodes:
            self._add(inner)
        added = program.steps[len(before.steps) :]
        if any(isinstance(step, Interpreted) for step in added):
            for part in _PARTS:
                setattr(program, part, getattr(before, part))
            return False
        return True

    def _emptied(self, node: onnx.NodeProto) -> bool:
        """Make constants of results without elements; returns whether no others are left."""
        for name in filter(None, node.output):
            self._add_empty(name)
        return all(not name or name in self.program.constants for name in node.output)

    def _add_empty(self, name: str) -> bool:
        """Make a constant of a tensor without elements; returns whether it is one."""
        kind = self._types.static(name)
        if kind is None or 0 not in kind.shape or kind.dtype not in DTYPES:
            return False
        self._add_constant(name, np.zeros(kind.shape, kind.dtype))
        return True

    def _folded(self, node: onnx.NodeProto) -> bool:
        """Evaluate a node whose results are known now."""
        program = self.program
        if node.domain not in STANDARD:
            return False
        if node.op_type in ("Shape", "Size") and node.input[0] in program.types:
            shape = program.types[node.input[0]].shape
            bounds = {item.name: int(item.i) for item in node.attribute}
            dims = np.array(shape, np.int64)[bounds.get("start", 0) : bounds.get("end", len(shape))]
            size = np.array(math.prod(shape), np.int64)
            self._add_constant(node.output[0], size if node.op_type == "Size" else dims)
            return True
        names = names_read(node)
        if _is_kept(node) or any(name not in program.constants for name in names):
            return False
        kinds = [self._types.static(name) for name in node.output if name]
        if any(kind is None or math.prod(kind.shape) > MAX_FOLDED_ELEMENTS for kind in kinds):
            return False
        try:
            feeds = {name: program.constants[name] for name in names}
            results = evaluate_onnx(node, program.opset, feeds)
        except Exception:  # the evaluator raises many kinds; the interpreted node will say which
            return False
        for name, value in zip(filter(None, node.output), results, strict=True):
            self._add_constant(name, value)
        return True

    def _viewed(self, node: onnx.NodeProto) -> bool:
        program, name = self.program, node.output[0]
        dropout = node.op_type == "Dropout" and len([item for item in node.output if item]) == 1
        if node.domain not in STANDARD or not (dropout or node.op_type in _VIEWS):
            return False
        kind = self._types.static(name)
        source = program.types.get(node.input[0])
        if kind is None or source is None or math.prod(kind.shape) != math.prod(source.shape):
            return False
        if dropout and len(node.input) > 2 and node.input[2]:
            return False
        if self._is_moved(node.input[0]) and splits_dimensions(kind.shape, source.shape):
            return False  # a formula, so that nothing copies the parts of a Split for a view
        if not self._add_placeholder(name, kind):
            return False
        program.steps.append(View(name, node.input[0]))
        return True

    def _is_moved(self, name: str) -> bool:
        """Whether a tensor is computed, and only has elements of another one."""
        value = self.program.tensors[name].value if name in self.program.tensors else None
        return value is not None and is_move(value)

    def _joined(self, node: onnx.NodeProto) -> bool:
        """A Concat of so many tensors that a copy of each costs less than a choice per element."""
        if node.op_type != "Concat" or node.domain not in STANDARD:
            return False
        program, name = self.program, node.output[0]
        kind = self._types.static(name)
        sources = [program.types.get(source) for source in node.input]
        parts = [
            source
            for source, part in zip(node.input, sources, strict=True)
            if part is not None and 0 not in part.shape
        ]
        axis = next((int(item.i) for item in node.attribute if item.name == "axis"), None)
        if kind is None or axis is None or None in sources or len(parts) <= MAX_SELECTED:
            return False
        if not -len(kind.shape) <= axis < len(kind.shape):
            return False
        if not self._add_placeholder(name, kind):
            return False
        program.steps.append(Joined(name, tuple(parts), axis % len(kind.shape)))
        return True

    def _taken(self, node: onnx.NodeProto) -> bool:
        """Import the branch of an If whose condition is known."""
        if node.op_type != "If" or node.domain not in STANDARD:
            return False
        condition = self.program.constants.get(node.input[0])
        if condition is None or condition.size != 1:
            return False
        chosen = "then_branch" if condition.item() else "else_branch"
        (found,) = (item.g for item in node.attribute if item.name == chosen)
        if found.sparse_initializer:
            return False
        branch = branch_graph(found, f"{OWN}{self._next()}")
        for item in branch.initializer:
            self._add_constant(item.name, _value(item))
        for inner in branch.node:
            self._add(inner)
        for given, name in zip(branch.output, node.output, strict=True):
            if name:
                self._add(onnx.helper.make_node("Identity", [given.name], [name]))
        return True

    def _compute(self, node: onnx.NodeProto) -> None:
        program = self.program
        operands = [self._operand(name) if name else None for name in node.input]
        results = [
            self._needed_type(name) if name and name not in program.constants else None
            for name in node.output
        ]
        given = {name: item for name, item in zip(node.input, operands, strict=True) if item}
        if results[0] is not None and self._maps.add_node(node, given, results[0]):
            return
        tables: dict[te.Tensor, Array] = {}
        attentions: list[Attended] = []
        prefix = f"t{self._next()}"
        given_too = tables, attentions
        tensors = lower_node(node, program.opset, operands, results, prefix, *given_too)
        known = {operand.tensor for operand in operands if operand is not None}
        empty = {item.tensor for item in operands if item is not None and 0 in item.shape}
        for tensor in topological(tensors, known):
            self._check(tensor)
            if tensor.value is not None and any(x.buffer in empty for x in loads(tensor.value)):
                raise ModelError("operands that are read must have elements; it is interpreted")
        for tensor, value in tables.items():
            program.tensors[f"{OWN}{tensor.name}"] = tensor
            program.constants[f"{OWN}{tensor.name}"] = value
        asked = [number for number, kind in enumerate(results) if kind is not None]
        names = tuple(node.output[number] for number in asked)
        kept = tuple(tensors[number] for number in asked)
        for name, tensor, kind in zip(names, kept, filter(None, results), strict=True):
            program.tensors[name] = tensor
            program.types[name] = kind
        program.steps.append(Computed(names, kept))
        program.attentions += tuple(attentions)

    def _interpret(self, node: onnx.NodeProto, reason: str) -> None:
        for name in filter(None, node.output):
            self._add_placeholder(name, self._types.static(name))
        self.program.steps.append(Interpreted(node, reason))

    def _operand(self, name: str) -> Operand:
        program = self.program
        kind = program.types.get(name)
        if kind is not None and 0 in kind.shape:
            nothing = te.placeholder((1,), kind.dtype, f"p{self._next()}")
            return Operand(nothing, kind.shape, program.constants.get(name))
        if name not in program.tensors:
            raise ModelError(
                f"tensors of compiled code must have a static shape and a numeric type, and "
                f"{name!r} has not; it is interpreted"
            )
        return Operand(
            program.tensors[name], program.types[name].shape, program.constants.get(name)
        )

    def _needed_type(self, name: str) -> ResultType:
        kind = self._types.static(name)
        if kind is not None and math.prod(kind.shape) > MAX_ELEMENTS:
            raise ModelError(
                f"tensors of compiled code must have at most {MAX_ELEMENTS} elements, and {name!r} "
                f"has {math.prod(kind.shape)}; it is interpreted"
            )
        if kind is None:
            raise ModelError(
                f"tensors of compiled code must have a static shape and elements, and {name!r} "
                "has not; it is interpreted"
            )
        return kind

    def _add_constant(self, name: str, value: Array) -> None:
        self.program.constants[name] = value
        self._types.set_constant(name, value)
        self._add_placeholder(name, ResultType(value.shape, value.dtype.name))

    def _add_placeholder(self, name: str, kind: ResultType | None) -> bool:
        if kind is None or kind.dtype not in DTYPES or math.prod(kind.shape) > MAX_ELEMENTS:
            return False
        self.program.types[name] = kind
        if 0 in kind.shape:
            return False
        self.program.tensors[name] = te.placeholder(
            buffer_shape(kind.shape), kind.dtype, f"p{self._next()}"
        )
        return True

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers
