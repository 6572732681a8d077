"""Runs a graph of one layer at every level of the compiler and compares them all.

numpy on logical maps = numpy on blocked maps = te = loop IR before its schedule = loop IR after
every primitive = the linked program on the functional simulator.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from daedal.compiler import pipeline, te
from daedal.compiler.codegen.scheduled_function import ScheduledFunction
from daedal.compiler.graph import run, run_all
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers import layer_code
from daedal.compiler.ops.accelerator.lowering import lower_node
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import CompiledGraph
from daedal.compiler.schedule import Schedule
from daedal.compiler.tir import interpreter
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from tests.support.same_function import assert_read_back
from tests.support.traces import steps

__all__ = ["Compiled", "Layer", "check_layer", "check_levels", "states"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    """A function of a node of the blocked graph on its way down: its formula, and its schedule."""

    node: Node
    lowered: ScheduledFunction
    inputs: tuple[te.Tensor, ...]
    outputs: tuple[te.Tensor, ...]
    beat_bytes: int

    @classmethod
    def all_of(cls, graph: Graph, node: Node, variant: Variant) -> "list[Layer]":
        """Lower `node` as the compiler does, and keep the formulas on the way."""
        with mock.patch.object(te, "create_prim_func", wraps=te.create_prim_func) as made:
            found = lower_node(graph, node, variant)
        beat_bytes = variant.bus.data_bits // 8
        # A template that tries several functions schedules the last one.
        calls = made.call_args_list[-len(found) :]
        return [
            cls(node, lowered, tuple(call.args[0]), tuple(call.args[1]), beat_bytes)
            for lowered, call in zip(found, calls, strict=True)
        ]

    @property
    def original(self) -> PrimFunc:
        """The loop IR before its schedule."""
        name = self.lowered.schedule.func.name
        return te.create_prim_func(self.inputs, self.outputs, name)

    def array(self, tensor: te.Tensor, values: dict[str, Array]) -> Array:
        """An operand or result as the formula has it, from the values of the blocked graph."""
        value = values[self.lowered.tensors[tensor.name]]
        view = self.lowered.views.get(tensor.name)
        if view is None:
            return value.reshape(tensor.shape)
        # The graph's array may have other elements than memory: a row of parameters, integers.
        beat, rest = divmod(value.size * self.beat_bytes, view.size_bytes)
        assert rest == 0, "a beat is a number of elements"
        row = tensor.shape[len(view.strides_beats) :]
        steps = [beats * beat for beats in view.strides_beats]
        steps += [math.prod(row[dim + 1 :]) for dim in range(len(row))]
        flat = np.ascontiguousarray(value).reshape(-1)[view.offset_beats * beat :]
        strides = [step * flat.itemsize for step in steps]
        return np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False).copy()

    def rescheduled(self, schedule: Schedule) -> "Layer":
        """The same formula with another schedule."""
        return replace(self, lowered=replace(self.lowered, schedule=schedule))


@dataclass(frozen=True)
class Compiled:
    """A compiled graph, and its layers on their way."""

    graph: Graph
    result: CompiledGraph
    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, graph: Graph, variant: Variant, layers: Sequence[Layer] = ()) -> "Compiled":
        """Compile a graph of integer operators, with `layers` as they are where they are given."""
        made: list[Layer] = []

        def lower(
            blocked: Graph, node: Node, target: Variant, _config: Config | None = None
        ) -> list[ScheduledFunction]:
            own = [layer for layer in layers if layer.node.output == node.output]
            own = own or Layer.all_of(blocked, node, target)
            made.extend(own)
            return [layer.lowered for layer in own]

        def passes(*args: Any, **options: Any) -> list[pipeline.GraphPass]:
            every = lowering_passes(*args, **options)
            return every[[name for name, _ in every].index("lower_qdq") + 1 :]

        lowering_passes = pipeline.lowering_passes
        with (
            mock.patch.object(pipeline, "lowering_passes", passes),
            mock.patch.object(layer_code, "lower_node", lower),
            # Every level has the values of the layer.
            mock.patch.object(layer_code, "with_placeholders", lambda node: (node, {})),
        ):
            result = pipeline.compile_graph(graph, variant)
        return cls(graph, result, tuple(made))

    def values(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Every tensor of the blocked graph, by numpy."""
        packed = run(self.result.host_parts[0], inputs, self.result.launch.graph.inputs)
        return run_all(self.result.launch.graph, packed)

    def check_program(self, inputs: dict[str, Array]) -> None:
        """The program is verified, and gives what the graph means."""
        program = self.result.launch.program
        verify(program)
        host = self.result.host_parts[0]
        plain = {spec.name: host.producers[spec.name].inputs[0] for spec in program.inputs}
        values = inputs | run(host, inputs, [name for name in plain.values() if name not in inputs])
        maps = {name: values[source] for name, source in plain.items()}
        loaded = LoadedProgram.place(program, FunctionalDevice(program.variant))
        (found,) = loaded.run(maps)[0].values()
        (expected,) = run(self.graph, inputs).values()
        # The product of an array with a batch has its pixels in a column.
        found = found.reshape(expected.shape)
        np.testing.assert_array_equal(found, expected, "the program")


def check_levels(graph: Graph, variant: Variant, inputs: dict[str, Array]) -> None:
    """Every level computes the same, and the loop IR reads back from its text."""
    compiled = Compiled.of(graph, variant)
    values = compiled.values(inputs)
    for layer in compiled.layers:
        check_layer(layer, values, states(layer))
        assert_read_back(layer.original)
        assert_read_back(layer.lowered.schedule.func)
    compiled.check_program(inputs)


def check_layer(
    layer: Layer, values: dict[str, Array], functions: Iterable[tuple[str, PrimFunc]]
) -> None:
    """te, and each of `functions`, which bear names, compute what numpy does."""
    (tensor,) = layer.outputs
    arrays = {operand.name: layer.array(operand, values) for operand in layer.inputs}
    expected = layer.array(tensor, values)
    (formula,) = te.evaluate_tensors([tensor], arrays)
    np.testing.assert_array_equal(formula, expected, "te")
    for name, func in functions:
        found = interpreter.run(func, arrays)[tensor.name]
        np.testing.assert_array_equal(found, expected, f"after {name}:\n{func_text(func)}")


def states(layer: Layer) -> Iterator[tuple[str, PrimFunc]]:
    """The function before its schedule, and after every primitive that changes it."""
    schedule, before = layer.lowered.schedule, layer.original
    yield "te", before
    for item, again in steps(schedule, before):
        if again.func is not before:
            yield item.primitive, again.func
        before = again.func
    assert func_text(before) == str(schedule), "a trace replays to the same function"
