"""Whole networks on the functional simulator against the integer graph."""

import numpy as np

from daedal.compiler.graph import run
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.pipeline import CompiledGraph
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice

__all__ = ["check_compiled"]


def check_compiled(compiled: CompiledGraph, rng: np.random.Generator) -> None:
    """The program keeps the rules and gives the bytes of the blocked graph on random inputs."""
    program, graph = compiled.launch.program, compiled.launch.graph
    verify(program)
    limits = {
        spec.name: 1 << 15 if is_wide(graph.types[spec.name]) else 128 for spec in program.inputs
    }
    inputs = {
        spec.name: rng.integers(-limits[spec.name], limits[spec.name], spec.shape)
        for spec in program.inputs
    }
    loaded = LoadedProgram.place(program, FunctionalDevice(program.variant))
    outputs, _ = loaded.run(inputs)
    packed = {
        name: np.ascontiguousarray(kind.layout.pack(array.astype(kind.dtype)))
        for name, array in inputs.items()
        for kind in [graph.types[name]]
    }
    for name, expected in run(graph, packed).items():
        n, c, _, _ = graph.types[name].shape
        full = graph.types[name].layout.unpack(expected)
        np.testing.assert_array_equal(outputs[name], full[:n, :c])
