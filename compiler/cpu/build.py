"""`build_host_code`: a checked ONNX model becomes a `HostCode`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx

from daedal.artifact.host_code import CodeCall, HostCode, InterpretedNode, Join, Step
from daedal.common.errors import ModelError
from daedal.compiler import te
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.functions import Functions
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.kernel import Kernel, Moved
from daedal.compiler.cpu.memory import MemoryPlan
from daedal.compiler.cpu.program import Computed, Interpreted, Joined, TensorProgram, View
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.foreign import names_read
from daedal.compiler.ops.graph.factors import PAIRS, QUADS, Factors
from daedal.compiler.te.lower import topological
from daedal.compiler.tir.expr import Buffer
from daedal.native.cache import ObjectCache
from daedal.native.levels import VNNI, host_level

__all__ = ["build_host_code"]

Array = npt.NDArray[Any]


def build_host_code(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[str] = (),
    cache: ObjectCache | None = None,
    checked: bool = False,
    factors: Factors | None = None,
    imported: Graph | None = None,
) -> HostCode:
    """Compile a model for processors.

    Parameters
    ----------
    model : checked; a symbolic first dimension of an input is 1.
    shapes : of inputs, where the model leaves them open.
    levels : of `native.levels`; none: that of this processor.
    checked : whether indices are checked at run time, for tests: slow.
    factors : how 8-bit integers are multiplied; None: as fits all `levels` best.
    imported : the model as a graph, where it was made from one: it is not imported then.

    Raises
    ------
    ModelError
        For a damaged model, for shapes that contradict it, and for formulas that nest too deeply.
    """
    chosen = tuple(levels) or (host_level(),)
    if factors is None:
        factors = QUADS if all(level.endswith(VNNI) for level in chosen) else PAIRS
    functions = Functions(chosen, cache or ObjectCache(), checked=checked)
    try:
        program = import_model(model, shapes, factors, imported)
        return _Builder(program, functions).code(chosen)
    except RecursionError as error:
        raise ModelError(
            "formulas of compiled code must not nest too deeply, and a node of this model has one "
            "that does; give it fewer operands"
        ) from error


class _Builder:
    """Turns the steps of a program into calls on one block of memory.

    Attributes
    ----------
    constants : values by placeholder; those that fusion computed are added.
    numbers : the buffer of each tensor that has one yet.
    names : the buffer of each named tensor.
    """

    def __init__(self, program: TensorProgram, functions: Functions) -> None:
        self.program = program
        self.functions = functions
        self.plan = MemoryPlan()
        self.constants: dict[Buffer, Array] = {
            program.tensors[name]: value
            for name, value in program.constants.items()
            if name in program.tensors
        }
        known = Constants(self.constants)
        self.kernels = fuse(self._needed(), known)
        self.constants.update(known.added)
        self.numbers: dict[te.Tensor, int] = {}
        self.names: dict[str, int] = {}
        self._asked = {*program.inputs, *program.outputs}
        self._moved_constants: dict[tuple[Buffer, Moved], int] = {}
        self._steps: list[Step] = []

    def code(self, levels: Sequence[str]) -> HostCode:
        """All steps, the memory, and the object code of each level."""
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
            elif name in program.constants:
                # Constants without elements, or of a type that compiled code has not.
                value = onnx.numpy_helper.from_array(program.constants[name])
                node = onnx.helper.make_node("Constant", [], [name], value=value)
                self._interpret(node, "no elements")
        buffers, constants, size = self.plan.placed()
        return HostCode(
            buffers,
            {name: number for name, number in self.names.items() if name in self._asked},
            program.inputs,
            program.outputs,
            tuple(self._steps),
            constants,
            size,
            {level: self.functions.objects(level) for level in levels},
        )

    def _needed(self) -> list[te.Tensor]:
        """Computed tensors that are read outside formulas."""
        program = self.program
        read = list(program.outputs)
        for step in program.steps:
            if isinstance(step, View):
                read.append(step.source)
            elif isinstance(step, Joined):
                read += step.sources
            elif isinstance(step, Interpreted):
                read += names_read(step.node)
        found = [program.tensors[name] for name in read if name in program.tensors]
        return list(dict.fromkeys(tensor for tensor in found if tensor.value is not None))

    def _step(self, step: Computed | View | Joined | Interpreted, time: int) -> None:
        if isinstance(step, Computed):
            for tensor in topological(step.tensors, self.numbers):
                self._compute(tensor, time)
            for name, tensor in zip(step.names, step.tensors, strict=True):
                if tensor in self.numbers:
                    self._name(name, self.numbers[tensor], first=time)
        elif isinstance(step, View):
            program = self.program
            source = self._number(program.tensors[step.source], time)
            kind = program.types[step.name]
            number = self.plan.view(source, kind.shape)
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

    def _compute(self, tensor: te.Tensor, time: int) -> None:
        """Calls that write a tensor, if a kernel does and it is not in memory yet."""
        if tensor not in self.kernels or tensor in self.numbers:
            return
        kernel = self.kernels[tensor]
        for source in kernel.sources:  # what no step names: a map with pads, an operand laid out
            assert isinstance(source, te.Tensor)
            self._compute(source, time)
        self._steps += self._calls(tensor, kernel, time)

    def _join(self, step: Joined, time: int) -> None:
        program = self.program
        numbers = [
            self.plan.view(self._number(program.tensors[name], time), program.types[name].shape)
            for name in step.sources
        ]
        kind = program.types[step.name]
        result = self.plan.add(kind.dtype, kind.shape, time)
        self.numbers[program.tensors[step.name]] = result
        self._name(step.name, result, first=time)
        self._steps.append(Join(step.axis, (*numbers, result)))

    def _calls(self, tensor: te.Tensor, kernel: Kernel, time: int) -> list[CodeCall]:
        free = [
            source
            for source in kernel.sources
            if source in self.constants
            and source not in self.program.laid_out
            and math.prod(source.shape) > 1
        ]
        function = self.functions.of(kernel, free)
        moved = dict(function.moved)
        inputs = []
        for position, source in enumerate(kernel.sources):
            assert isinstance(source, te.Tensor)
            if position in moved:
                inputs.append(self._moved_constant(source, moved[position]))
            else:
                inputs.append(self._number(source, time))
        for number in inputs:
            self.plan.read(number, time)
        result = self.plan.add(tensor.dtype, tensor.shape, time)
        self.numbers[tensor] = result
        calls = [
            CodeCall(function.symbol, (*inputs, result), function.iterations, function.nanoseconds)
        ]
        if kernel.frame is not None:
            border = self.functions.border(kernel.frame, tensor.dtype)
            calls.insert(0, CodeCall(border.symbol, (result,), 1, border.nanoseconds))
        return calls

    def _number(self, tensor: te.Tensor, time: int) -> int:
        """The buffer of a tensor that is in memory at `time`."""
        if tensor not in self.numbers:
            self.numbers[tensor] = self.plan.add_constant(self.constants[tensor])
        self.plan.read(self.numbers[tensor], time)
        return self.numbers[tensor]

    def _moved_constant(self, tensor: te.Tensor, how: Moved) -> int:
        key = tensor, how
        if key not in self._moved_constants:
            value = self.constants[tensor].reshape(tensor.shape)
            self._moved_constants[key] = self.plan.add_constant(how.applied(value))
        return self._moved_constants[key]

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
