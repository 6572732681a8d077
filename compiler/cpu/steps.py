"""`program_code`: the steps of a `TensorProgram` as calls of kernels on one block of memory.

What the kernels are is left to `KernelFunctions`: machine code of a processor (`functions`), or
kernels of a GPU (`compiler.gpu.functions`).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy.typing as npt
import onnx

from daedal.artifact.constants import Change
from daedal.artifact.host_code import CodeCall, HostCode, InterpretedNode, Join, Step
from daedal.compiler import te
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.cpu.kernel import Kernel, Moved
from daedal.compiler.cpu.memory import MemoryPlan, StoredValues
from daedal.compiler.cpu.parts import in_parts
from daedal.compiler.cpu.placement import placements, read_by_steps
from daedal.compiler.cpu.program import (
    Computed,
    Interpreted,
    Joined,
    TensorProgram,
    View,
    name_in_model,
)
from daedal.compiler.graph.ops.foreign import names_read
from daedal.compiler.te.lower import topological
from daedal.compiler.tir.expr import Buffer, IntImm
from daedal.compiler.tir.visit import loads

__all__ = ["Function", "KernelFunctions", "program_code"]

Array = npt.NDArray[Any]

LEAST_ROUND = 8
"""Iterations: fewer cannot be shared evenly by a few threads."""


@dataclass(frozen=True)
class Function:
    """A function and what its callers must know.

    Attributes
    ----------
    moved : of constants that it reads in another layout, the number of the input and the layout.
    iterations : of its parallel loop.
    nanoseconds : a guess of one thread's time within a factor of a few: it decides on threads.
    held : inputs, by their numbers, of which other parts are read in each round of the iterations.
    rounds : how many there are.
    common : equal parts of the iterations whose operands have nothing in common.
    """

    symbol: str
    moved: tuple[tuple[int, Moved], ...] = ()
    iterations: int = 1
    nanoseconds: int = 0
    held: tuple[int, ...] = ()
    rounds: int = 1
    common: int = 1


class KernelFunctions(Protocol):
    """The functions of kernels; kernels of equal structure have one.

    Attributes
    ----------
    takes_copies : whether maps with pads are stored inside their pads, and operands copied where
        vectors need another layout: as processors want it.
    half : dtype that operands of products are rounded to, where `narrows` says so; empty for none.
    converts_constants : whether constants are kept in the dtype that kernels compute in; tensor
        cores want them in their own.
    """

    takes_copies: bool
    half: str
    converts_constants: bool

    def takes(self, kernel: Kernel, /) -> bool:
        """Whether there is one function for a kernel of attention, or of rows of a GPU."""
        ...

    def narrows(self, sums: te.Tensor, /) -> bool:
        """Whether operands of a sum of products of float32 are rounded to `half`."""
        ...

    def of(self, kernel: Kernel, constants: Collection[Buffer], /) -> Function:
        """The function of a kernel; the layout of those of its sources in `constants` is free."""
        ...

    def border(self, frame: Frame, dtype: str, /) -> Function:
        """The function that stores what lies around a tensor in `frame`."""
        ...

    def placed(self, frame: Frame, dtype: str, /) -> Function | None:
        """The function that copies a tensor into `frame`; None where a step joins tensors."""
        ...


def program_code(
    program: TensorProgram, functions: KernelFunctions, stored: StoredValues | None = None
) -> HostCode:
    """All steps and the memory, without object code; constants have the values of `stored`."""
    return _Builder(program, functions, stored).code()


def _call(function: Function, buffers: tuple[int, ...], title: str) -> CodeCall:
    """`title` is the name of a kernel: those of tensors, some of which the model may not have."""
    names = tuple(dict.fromkeys(filter(None, map(name_in_model, title.split(", ")))))
    return CodeCall(
        function.symbol, buffers, function.iterations, function.nanoseconds, computes=names
    )


def _leading(kernel: Kernel) -> int:
    """How many elements along the first axes an iteration computes, each with all those axes."""
    sizes = dict(kernel.tile)
    shape = kernel.result.shape[: len(sizes)]
    return math.prod(shape) if shape == tuple(map(sizes.get, range(len(sizes)))) else 1


class _Builder:
    """Turns the steps of a program into calls on one block of memory.

    Attributes
    ----------
    constants : values by placeholder; those that fusion computed are added.
    numbers : the buffer of each tensor that has one yet.
    names : the buffer of each named tensor.
    """

    def __init__(
        self,
        program: TensorProgram,
        functions: KernelFunctions,
        stored: StoredValues | None,
    ) -> None:
        self.program = program
        self.functions = functions
        self.plan = MemoryPlan(stored)
        self.constants: dict[Buffer, Array] = {
            program.tensors[name]: value
            for name, value in program.constants.items()
            if name in program.tensors
        }
        known = Constants(self.constants, converts=functions.converts_constants)
        self.kernels = fuse(
            self._needed(),
            known,
            copies=functions.takes_copies,
            attentions=program.attentions,
            takes=functions.takes,
            narrows=functions.narrows,
            half=functions.half,
        )
        self.constants.update(known.added)
        self._placements = placements(program, self.kernels) if functions.takes_copies else {}
        self._titles: dict[Buffer, str] = {
            tensor: name for name, tensor in program.tensors.items() if tensor.value is not None
        }
        self.numbers: dict[te.Tensor, int] = {}
        self.names: dict[str, int] = {}
        self._asked = {*program.inputs, *program.outputs}
        self._moved_constants: dict[tuple[Buffer, Moved], int] = {}
        # Of buffers: how many elements along their first axes an iteration computes.
        self._together: dict[int, int] = {}
        self._steps: list[Step] = []

    def code(self) -> HostCode:
        """All steps and the memory."""
        program = self.program
        for name in program.inputs:
            if name in program.tensors:
                self._name(name, self._buffer(name), first=0)
        for number, step in enumerate(program.steps):
            self._step(step, number + 1)
        last = len(program.steps) + 1
        for name in program.outputs:
            if name in program.tensors:
                tensor = program.tensors[name]
                if name not in self.names:
                    self._name(name, self._number(tensor, last), first=last)
                self.plan.read(self.names[name], last)
            elif name in program.types and 0 in program.types[name].shape:
                kind = program.types[name]
                self._name(name, self.plan.add(kind.dtype, kind.shape, last), first=last)
            elif name in program.constants:
                value = onnx.numpy_helper.from_array(program.constants[name])
                node = onnx.helper.make_node("Constant", [], [name], value=value)
                self._interpret(node, "compiled code must not have constants of this type")
        buffers, constants, size = self.plan.placed()
        return HostCode(
            buffers,
            {name: number for name, number in self.names.items() if name in self._asked},
            program.inputs,
            program.outputs,
            tuple(self._steps),
            constants,
            size,
            {},
        )

    def _needed(self) -> list[te.Tensor]:
        """Computed tensors that are read outside formulas."""
        program = self.program
        read = read_by_steps(program)
        found = [program.tensors[name] for name in read if name in program.tensors]
        return list(dict.fromkeys(tensor for tensor in found if tensor.value is not None))

    def _step(self, step: Computed | View | Joined | Interpreted, time: int) -> None:
        if isinstance(step, Computed):
            for tensor in topological(step.tensors, self.numbers):
                self._compute(tensor, time, ", ".join(filter(None, step.names)))
            for name, tensor in zip(step.names, step.tensors, strict=True):
                if tensor in self.numbers and tensor not in self._placements:
                    self._name(name, self.numbers[tensor], first=time)
        elif isinstance(step, View):
            program = self.program
            source = self._number(program.tensors[step.source], time)
            kind = program.types[step.name]
            number = self.plan.view(source, kind.shape)
            self._together[number] = self._together.get(source, 1)
            self.numbers[program.tensors[step.name]] = number
            self._name(step.name, number, first=time)
        elif isinstance(step, Joined):
            self._join(step, time)
        else:
            self._asked.update((*names_read(step.node), *step.node.output))
            for name in names_read(step.node):
                if name in self.program.tensors and name not in self.program.constants:
                    self._name(name, self._number(self.program.tensors[name], time), first=time)
                    self.plan.read(self.names[name], time)
            for name in filter(None, step.node.output):
                if name in self.program.tensors:
                    self._name(name, self._buffer(name), first=time)
            self._interpret(step.node, step.reason)

    def _compute(self, tensor: te.Tensor, time: int, results: str = "") -> None:
        """Calls that write a tensor, if a kernel does and it is not in memory yet; `results` are
        the names of what it is computed for."""
        if tensor not in self.kernels or tensor in self.numbers:
            return
        kernel = self.kernels[tensor]
        for source in kernel.sources:  # what no step names: a map with pads, an operand laid out
            assert isinstance(source, te.Tensor)
            self._compute(source, time)
        kernel = replace(kernel, name=self._title(tensor, results))
        self._steps += self._calls(tensor, kernel, time)

    def _join(self, step: Joined, time: int) -> None:
        program = self.program
        parts = [program.tensors[name] for name in step.sources]
        placed = any(part in self._placements for part in parts)
        numbers = [
            self.plan.view(self._number(part, time), program.types[name].shape)
            for part, name in zip(parts, step.sources, strict=True)
            if not placed
        ]
        result = self._joined(step, time)
        self._name(step.name, result, first=time)
        if not placed:
            self._steps += self._copies(step, numbers, result)

    def _joined(self, step: Joined, time: int) -> int:
        """The buffer of a joined tensor; a part of it may have been stored before."""
        tensor, kind = self.program.tensors[step.name], self.program.types[step.name]
        if tensor not in self.numbers:
            self.numbers[tensor] = self.plan.add(kind.dtype, kind.shape, time)
        return self.numbers[tensor]

    def _copies(self, step: Joined, numbers: Sequence[int], result: int) -> Sequence[Step]:
        """The steps that copy buffers one after the other into another: one, or a kernel each."""
        first, calls = 0, list[Step]()
        dtype, outer = self.plan.kind(result)
        for number in numbers:
            _, inner = self.plan.kind(number)
            before = tuple(first if place == step.axis else 0 for place in range(len(outer)))
            function = self.functions.placed(Frame(inner, outer, before, IntImm(0)), dtype)
            if function is None:
                return [Join(step.axis, (*numbers, result))]
            calls.append(_call(function, (number, result), step.name))
            first += inner[step.axis]
        return calls

    def _calls(self, tensor: te.Tensor, kernel: Kernel, time: int) -> list[CodeCall]:
        placement = self._placements.get(tensor)
        if placement is not None:
            kernel = replace(kernel, frame=placement.frame)
        is_whole = placement is not None or not self.functions.takes_copies
        parts = (kernel,) if is_whole else in_parts(kernel)
        called = [self._called(part, time) for part in parts]
        read = [number for _, inputs in called for number in inputs]
        known = max((self._together.get(number, 1) for number in read), default=1)
        products = known if all(known == function.common for function, _ in called) else 1
        together = max(_leading(kernel), products)
        if placement is None:
            result = self.plan.add(tensor.dtype, tensor.shape, time, together)
        else:
            result = self._joined(placement.step, time)
        self.numbers[tensor] = result
        self._together[result] = together
        calls = [
            replace(
                _call(function, (*inputs, result), part.name),
                rounds=self._rounds(part, function, products),
                products=part.products,
            )
            for part, (function, inputs) in zip(parts, called, strict=True)
        ]
        if kernel.frame is not None and placement is None:
            border = self.functions.border(kernel.frame, tensor.dtype)
            calls.insert(0, _call(border, (result,), kernel.name))
        return calls

    def _called(self, kernel: Kernel, time: int) -> tuple[Function, Sequence[int]]:
        """The function of a kernel, and the buffers that it reads at `time`."""
        free = [
            source
            for source in kernel.sources
            if (source in self.constants or source in self.program.changed)
            and source not in self.program.laid_out
            and math.prod(source.shape) > 1
        ]
        function = self.functions.of(kernel, free)
        moved = dict(function.moved)
        inputs = list[int]()
        for position, source in enumerate(kernel.sources):
            assert isinstance(source, te.Tensor)
            if position in moved:
                inputs.append(self._moved_constant(source, moved[position]))
            else:
                inputs.append(self._number(source, time))
        for number in inputs:
            self.plan.read(number, time)
        return function, inputs

    def _rounds(self, kernel: Kernel, function: Function, products: int) -> int:
        """See `CodeCall`, of a kernel that computes `products`, of which each iteration of the
        kernel before computes an operand of all."""
        if products > 1:
            each = function.iterations // function.rounds
            return max(products, function.rounds if each >= LEAST_ROUND else 1)
        holds_constants = all(kernel.sources[number] in self.constants for number in function.held)
        return function.rounds if holds_constants else 1

    def _title(self, tensor: te.Tensor, results: str) -> str:
        """The model's name of what a tensor holds: its own, or that of what it is computed for, or
        for a copy that of the one tensor it reads."""
        assert tensor.value is not None
        if results:
            return self._titles.get(tensor, results)
        read = [load.buffer for load in loads(tensor.value) if load.buffer in self._titles]
        sources = [tensor] if tensor in self._titles else dict.fromkeys(read)
        return ", ".join(self._titles[source] for source in sources)

    def _number(self, tensor: te.Tensor, time: int) -> int:
        """The buffer of a tensor that is in memory at `time`."""
        if tensor not in self.numbers:
            self.numbers[tensor] = self.plan.add_constant(*self._stored(tensor))
        self.plan.read(self.numbers[tensor], time)
        return self.numbers[tensor]

    def _moved_constant(self, tensor: te.Tensor, how: Moved) -> int:
        key = tensor, how
        if key not in self._moved_constants:
            value, changes = self._stored(tensor)
            packing = how.packing(tensor.shape)
            self._moved_constants[key] = self.plan.add_constant(value, (*changes, packing))
        return self._moved_constants[key]

    def _stored(self, tensor: te.Tensor) -> tuple[Array, tuple[Change, ...]]:
        """What is stored of a constant, and what makes it of that."""
        return self.program.changed.get(tensor) or (self.constants[tensor], ())

    def _buffer(self, name: str) -> int:
        """A new buffer for an input or the result of an interpreted node."""
        tensor, kind = self.program.tensors[name], self.program.types[name]
        number = self.plan.add(kind.dtype, kind.shape, 0)
        self.numbers[tensor] = number
        return number

    def _name(self, name: str, number: int, first: int) -> None:
        kind = self.program.types[name]
        self.names[name] = self.plan.view(number, kind.shape)
        self.plan.read(self.names[name], first)

    def _interpret(self, node: onnx.NodeProto, reason: str) -> None:
        """A step that runs one node, with the constants that it reads in its model."""
        constants = self.program.constants
        read = names_read(node)
        inputs = [
            onnx.helper.make_empty_tensor_value_info(name) for name in read if name not in constants
        ]
        values = [
            onnx.numpy_helper.from_array(constants[name], name)
            for name in read
            if name in constants
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", inputs, outputs, values)
        opsets = [onnx.helper.make_opsetid(*item) for item in self.program.opsets]
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        step = InterpretedNode(model.SerializeToString(), str(node.op_type), reason)
        self._steps.append(step)
