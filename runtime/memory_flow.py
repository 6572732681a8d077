"""`MemoryFlow`: which layer wrote the words of external memory that each LOAD reads.

Input: a program. Output: the layer of the words of every LOAD and STORE, groups of layers whose
words are read together, and the peak of live workspace memory.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from daedal.common.errors import ProgramError
from daedal.isa.instruction import Instruction
from daedal.isa.layer_steps import layer_steps
from daedal.isa.numerics import IntArray
from daedal.isa.program import Program
from daedal.isa.table import BASES, Opcode
from daedal.isa.tensor import TensorSpec
from daedal.isa.transfer import transfer
from daedal.runtime.layers import layer_tags

__all__ = ["HOST", "MemoryFlow"]

HOST = -1
"""Pseudo-layer of words that the host writes or reads: inputs and outputs."""

_NOBODY = -2
_CONSTANTS, _WORKSPACE = BASES.index("constants"), BASES.index("workspace")


class MemoryFlow:
    """Analysis of a program in program order. Raises ProgramError for an access outside its memory.

    Words of memory are numbered through all regions, the workspace last. Layers whose words a
    single LOAD reads (a concatenation without a copy) form a *group*, as do the host and the layers
    that write what it reads. A group is named by the tag of one of its layers.

    Attributes
    ----------
    first_words : number of the first word of each region.
    num_words : of all regions.
    layers : for each instruction the tag of the layer whose words it writes or reads; None if it
        moves nothing, or constants.
    workspace_needed_bytes : the largest number of workspace bytes live in any step
        (`daedal.isa.layer_steps`). Bytes are live from the first step of the layer that writes them
        to the last step of those that read them: a lower bound of any plan.
    """

    def __init__(self, program: Program) -> None:
        self._variant = program.variant
        self._bus_bytes = program.variant.bus_bytes
        sizes = [-(-size // self._bus_bytes) for size in program.region_bytes]
        self.first_words = [0, *accumulate(sizes)][: len(sizes)]
        self.num_words = sum(sizes)
        self._parents: dict[int, int] = {}
        self._windows: dict[int, tuple[int, int]] = {}
        self._owners = np.full(self.num_words, _NOBODY, dtype=np.int32)
        self._num_layers = len(program.marks)
        tags = layer_tags(program)
        self._lives = _Lives(sizes[_WORKSPACE], _steps(program, tags))
        for spec in program.inputs:
            self._owners[self._words_of(spec)] = HOST
        self.layers: Sequence[int | None] = [
            self._visit(item, tag) for item, tag in zip(program.instructions, tags, strict=True)
        ]
        for spec in program.outputs:
            for owner in self.last_layers(spec):
                self._join(HOST, owner)
        self.workspace_needed_bytes = self._lives.most() * self._bus_bytes

    @property
    def windows(self) -> dict[int, tuple[int, int]]:
        """First word and one past the last one of each group, by its name."""
        return dict(self._windows)

    def last_layers(self, spec: TensorSpec) -> set[int]:
        """The layers that wrote the words of a tensor last."""
        return {int(owner) for owner in np.unique(self._owners[self._words_of(spec)])}

    def group(self, layer: int) -> int:
        """Name of the group of a layer."""
        while layer in self._parents:
            layer = self._parents[layer]
        return layer

    def _visit(self, item: Instruction, tag: int | None) -> int | None:
        if item.opcode not in (Opcode.LOAD, Opcode.STORE) or item.base == _CONSTANTS:
            return None
        words = self._words_moved(item)
        if not words.size:
            return None
        low, high = int(words.min()), int(words.max()) + 1
        begin, end = self._region(item.base)
        if tag is None or not 0 <= tag < self._num_layers or low < begin or high > end:
            raise ProgramError(
                f"a {item.opcode.name} must stay in region {BASES[item.base]!r} of its program and "
                "belong to a marked layer, and this one does not; compile the model again"
            )
        writes = item.opcode is Opcode.STORE
        if item.base == _WORKSPACE:
            self._lives.touch(words - self.first_words[_WORKSPACE], tag, writes)
        if writes:
            self._owners[words] = tag
        owners = [int(owner) for owner in np.unique(self._owners[words]) if owner != _NOBODY]
        if not owners:
            return None
        for other in owners[1:]:
            self._join(owners[0], other)
        self._widen(self.group(owners[0]), low, high)
        return owners[0]

    def _join(self, first: int, second: int) -> None:
        first, second = self.group(first), self.group(second)
        if first == second:
            return
        self._parents[second] = first
        window = self._windows.pop(second, None)
        if window is not None:
            self._widen(first, *window)

    def _widen(self, group: int, low: int, high: int) -> None:
        known = self._windows.get(group, (low, high))
        self._windows[group] = min(low, known[0]), max(high, known[1])

    def _region(self, base: int) -> tuple[int, int]:
        """First word of a region and one past its last."""
        ends = [*self.first_words[1:], self.num_words]
        return self.first_words[base], ends[base]

    def _words_of(self, spec: TensorSpec) -> slice | IntArray:
        first = self.first_words[spec.base] + spec.offset_bytes // self._bus_bytes
        end = first - (-spec.size_bytes // self._bus_bytes)
        if not spec.pitch:
            return slice(first, end)
        words: IntArray = np.arange(first, min(end, self.num_words))
        *_, width, batch, block = spec.physical_shape
        column_bytes = batch * block * spec.element_bits // 8
        columns = (words - first) * self._bus_bytes // column_bytes
        return words[columns % spec.pitch < width]

    def _words_moved(self, item: Instruction) -> IntArray:
        moved = transfer(self._variant, item)
        within = np.arange(-(-moved.row_bytes // self._bus_bytes))
        first = self.first_words[item.base] + moved.offsets_bytes // self._bus_bytes
        words: IntArray = (first[:, None] + within).reshape(-1)
        return words


def _steps(program: Program, tags: Sequence[int | None]) -> dict[int, tuple[int, int]]:
    """First and last step of each layer."""
    return layer_steps(
        (tag, item.opcode)
        for item, tag in zip(program.instructions, tags, strict=True)
        if tag is not None and item.opcode in (Opcode.LOAD, Opcode.STORE)
    )


class _Lives:
    """The live range of each word, in `steps` of layers."""

    def __init__(self, num_words: int, steps: Mapping[int, tuple[int, int]]) -> None:
        self._steps = steps
        self._writers = np.full(num_words, _NOBODY, dtype=np.int32)
        self._begins = np.full(num_words, -1, dtype=np.int32)
        self._ends = np.full(num_words, -1, dtype=np.int32)
        self._changes = np.zeros(len(steps) + 2, dtype=np.int64)

    def touch(self, words: IntArray, tag: int, writes: bool) -> None:
        """Layer `tag` writes or reads `words`."""
        first, last = self._steps[tag]
        if writes:
            fresh = words[self._writers[words] != tag]
            # A word that this layer read and now overwrites counts once, not twice.
            before = np.maximum(first, self._begins[fresh]) - 1
            self._ends[fresh] = np.minimum(self._ends[fresh], before)
            self._close(fresh)
            self._writers[fresh] = tag
            self._begins[fresh] = first
        self._ends[words] = np.maximum(self._ends[words], last)

    def most(self) -> int:
        """The largest number of words live in any step."""
        self._close(np.arange(len(self._begins)))
        return int(np.cumsum(self._changes).max(initial=0))

    def _close(self, words: IntArray) -> None:
        words = words[self._begins[words] >= 0]
        np.add.at(self._changes, self._begins[words], 1)
        np.add.at(self._changes, self._ends[words] + 1, -1)
