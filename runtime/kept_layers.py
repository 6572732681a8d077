"""`keep_layers`: a launch after which the result of every layer can be read.

A program reuses the bytes of a tensor once it is no longer read. Here the stores of every layer are
redirected to separate memory, and so are the loads that read them. STOREs of results that nothing
reads, which store nothing in the original program (`Program.unread`), store them here. Nothing else
changes: the instructions, their order, their tokens and their scratchpad rows stay, so that each
layer computes the same as in the original program.
"""

from dataclasses import replace

from daedal.artifact.artifact import Launch
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.table import BASES
from daedal.isa.tensor import TensorSpec
from daedal.runtime.memory_flow import HOST, MemoryFlow

__all__ = ["keep_layers"]

_WORKSPACE = BASES.index("workspace")


def keep_layers(launch: Launch) -> Launch:
    """The same launch with the results of its layers among its outputs.

    Tensors that the host writes or reads stay in place. A result that another layer of its group
    overwrites is omitted, and one that the host reads in another order, as an output.
    """
    known = {spec.name for spec in launch.program.outputs}
    known |= {binding.name for binding in launch.outputs}
    moves = _Moves(launch.program.observed)
    program = moves.program()
    flow = MemoryFlow(program)
    specs, bindings = [], []
    for layer in launch.layers:
        result = layer.result
        if result is not None and not known & {result.spec.name, result.binding.name}:
            spec = moves.spec(result.spec, layer.tag)
            if flow.last_layers(spec) == {layer.tag}:
                specs.append(spec)
                bindings.append(result.binding)
    return replace(
        launch,
        program=replace(program, outputs=(*program.outputs, *specs)),
        outputs=(*launch.outputs, *bindings),
    )


class _Moves:
    """Moves every group of a program's layers, except the host's, behind the workspace."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._flow = MemoryFlow(program)
        self._bus_bytes = program.variant.bus_bytes
        self._words: dict[int, int] = {}
        self._end = self._flow.num_words
        for group, (low, high) in self._flow.windows.items():
            if group != self._flow.group(HOST):
                self._words[group] = self._end - low
                self._end += high - low

    def program(self) -> Program:
        """The program with its loads and stores moved."""
        first = self._flow.first_words[_WORKSPACE]
        constants, inputs, outputs, _ = self._program.region_bytes
        workspace = (self._end - first) * self._bus_bytes
        return replace(
            self._program,
            instructions=tuple(
                item if layer is None else self._instruction(item, layer)
                for item, layer in zip(self._program.instructions, self._flow.layers, strict=True)
            ),
            region_bytes=(constants, inputs, outputs, workspace),
        )

    def spec(self, spec: TensorSpec, layer: int) -> TensorSpec:
        """The new place of a layer's result."""
        word = self._moved(spec.base, spec.offset_bytes // self._bus_bytes, layer)
        if word is None:
            return spec
        return replace(spec, base=_WORKSPACE, offset_bytes=word * self._bus_bytes)

    def _instruction(self, item: Instruction, layer: int) -> Instruction:
        word = self._moved(item.base, item.offset_beats, layer)
        return item if word is None else item.replace(base=_WORKSPACE, offset_beats=word)

    def _moved(self, base: int, word: int, layer: int) -> int | None:
        """The workspace word to which word `word` of a region moved; None if it stays."""
        group = self._flow.group(layer)
        if group not in self._words:
            return None
        firsts = self._flow.first_words
        return firsts[base] + word + self._words[group] - firsts[_WORKSPACE]
