"""`build_host_code`: a checked ONNX model becomes a `HostCode`."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler import te
from daedal.compiler.codegen.llvm.function import function_text, parallel_extent
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.cpu.importer import (
    Computed,
    Interpreted,
    TensorProgram,
    View,
    import_model,
)
from daedal.compiler.cpu.kernel import Kernel, ScheduledKernel, kernel_function
from daedal.compiler.cpu.memory import MemoryPlan
from daedal.compiler.graph.ops.foreign import names_read
from daedal.compiler.ops.cpu.reuse import NARROW, WIDEST, Registers
from daedal.compiler.te.lower import topological
from daedal.compiler.tir.expr import Buffer, Reduce
from daedal.isa.host_code import CodeCall, HostCode, InterpretedNode, Step
from daedal.native.cache import ObjectCache
from daedal.native.codegen import compile_text, compile_vectors
from daedal.native.levels import host_level, level_cpu

__all__ = ["build_host_code"]

Array = npt.NDArray[Any]


def build_host_code(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[str] = (),
    cache: ObjectCache | None = None,
    checked: bool = False,
) -> HostCode:
    """Compile a model for processors.

    Parameters
    ----------
    model : checked; a symbolic first dimension of an input is 1.
    shapes : of inputs, where the model leaves them open.
    levels : of `native.levels`; none: that of this processor.
    checked : whether indices are checked at run time, for tests: slow.
    """
    return _Builder(
        import_model(model, shapes),
        tuple(levels) or (host_level(),),
        cache or ObjectCache(),
        checked,
    ).code()


@dataclass
class _Compiled:
    """A function, and how its callers must lay out constants."""

    symbol: str
    moved: tuple[tuple[int, int], ...]
    iterations: int


@dataclass
class _Builder:
    program: TensorProgram
    levels: tuple[str, ...]
    cache: ObjectCache
    checked: bool
    compiled: dict[str, _Compiled] = field(default_factory=dict)
    texts: dict[str, tuple[str, bool]] = field(default_factory=dict)

    @property
    def registers(self) -> Registers:
        """What kernels are scheduled for: the least of all levels, but for the baseline's."""
        return WIDEST if self.levels == ("x86-64-v4",) else NARROW

    def code(self) -> HostCode:
        """All steps, the memory, and the object code."""
        program = self.program
        self.plan = MemoryPlan()
        self.numbers: dict[te.Tensor, int] = {}
        self.constants: dict[Buffer, Array] = {
            program.tensors[name]: value
            for name, value in program.constants.items()
            if name in program.tensors
        }
        known = Constants(self.constants)
        kernels = fuse(self._needed(), known)
        self.constants.update(known.added)
        self.moved_constants: dict[tuple[Buffer, int], int] = {}
        self.names: dict[str, int] = {}
        for name in program.inputs:
            if name not in program.tensors:
                continue
            self._name(name, self._buffer(name), first=0)
        steps: list[Step] = []
        for number, step in enumerate(program.steps):
            self._step(step, number + 1, kernels, steps)
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
                steps.append(InterpretedNode(self._node_model(node), "Constant", "no elements"))
        buffers, constants, size = self.plan.placed()
        return HostCode(
            buffers,
            dict(self.names),
            program.inputs,
            program.outputs,
            tuple(steps),
            constants,
            size,
            {level: self._objects(level) for level in self.levels},
        )

    def _needed(self) -> list[te.Tensor]:
        """Computed tensors that are read outside formulas."""
        program = self.program
        read = list(program.outputs)
        for step in program.steps:
            if isinstance(step, View):
                read.append(step.source)
            elif isinstance(step, Interpreted):
                read += names_read(step.node)
        found = [program.tensors[name] for name in read if name in program.tensors]
        return list(dict.fromkeys(tensor for tensor in found if tensor.value is not None))

    def _step(
        self,
        step: Computed | View | Interpreted,
        time: int,
        kernels: dict[te.Tensor, Kernel],
        steps: list[Step],
    ) -> None:
        if isinstance(step, Computed):
            for tensor in topological(step.tensors):
                if tensor in kernels and tensor not in self.numbers:
                    steps.append(self._call(tensor, kernels[tensor], time))
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
        else:
            for name in names_read(step.node):
                if name in self.program.tensors and name not in self.program.constants:
                    self._name(name, self._number(self.program.tensors[name], time), first=time)
                    self.plan.read(self.names[name], time)
            for name in filter(None, step.node.output):
                if name in self.program.tensors:
                    self._name(name, self._buffer(name), first=time)
            steps.append(
                InterpretedNode(self._node_model(step.node), step.node.op_type, step.reason)
            )

    def _call(self, tensor: te.Tensor, kernel: Kernel, time: int) -> CodeCall:
        free = [
            source
            for source in kernel.sources
            if source in self.constants and math.prod(source.shape) > 1
        ]
        compiled = self._function(kernel, free)
        moved = dict(compiled.moved)
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
        work = math.prod(tensor.shape)
        if kernel.reduction is not None:
            formula = kernel.reduction.value
            assert isinstance(formula, Reduce)
            work *= math.prod(axis.extent for axis in formula.axes)
        return CodeCall(compiled.symbol, (*inputs, result), compiled.iterations, work)

    def _function(self, kernel: Kernel, free: Sequence[Buffer]) -> _Compiled:
        mine = [
            item
            for item, source in zip(kernel.inputs, kernel.sources, strict=True)
            if source in free
        ]
        key = f"{kernel.key}; {[item.name for item in mine]}"
        found = self.compiled.get(key)
        if found is None:
            scheduled = kernel_function(kernel, mine, self.registers)
            found = self.compiled[key] = self._compile(kernel, scheduled)
        return found

    def _compile(self, kernel: Kernel, scheduled: ScheduledKernel) -> _Compiled:
        tiled = kernel.reduction is None or bool(scheduled.tiled)
        text = function_text(scheduled.func, "SYMBOL", checked=self.checked)
        symbol = f"k{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self.texts[symbol] = text.replace("@SYMBOL", f"@{symbol}"), tiled
        moved = tuple(
            (kernel.inputs.index(tensor), dimension) for tensor, dimension in scheduled.moved
        )
        return _Compiled(symbol, moved, parallel_extent(scheduled.func))

    def _objects(self, level: str) -> tuple[bytes, ...]:
        cpu = level_cpu(level)
        objects = []
        for text, tiled in self.texts.values():
            compile_one = compile_vectors if tiled else compile_text
            objects.append(self.cache.get(f"{level}\n{text}", partial(compile_one, text, cpu)))
        return tuple(objects)

    def _number(self, tensor: te.Tensor, time: int) -> int:
        """The buffer of a tensor that is in memory at `time`."""
        if tensor not in self.numbers:
            self.numbers[tensor] = self.plan.add_constant(self.constants[tensor])
        self.plan.read(self.numbers[tensor], time)
        return self.numbers[tensor]

    def _moved_constant(self, tensor: te.Tensor, dimension: int) -> int:
        key = tensor, dimension
        if key not in self.moved_constants:
            value = self.constants[tensor].reshape(tensor.shape)
            self.moved_constants[key] = self.plan.add_constant(np.moveaxis(value, dimension, -1))
        return self.moved_constants[key]

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

    def _node_model(self, node: onnx.NodeProto) -> bytes:
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
        model: bytes = onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString()
        return model
