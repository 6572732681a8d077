"""`GpuAttentionSpace`: queries of a block and keys of a step, of attention in one kernel."""

import itertools
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.attention_form import AttentionForm, attention_form
from daedal.compiler.ops.gpu.attention_tiles import (
    SINGLE_THREADS,
    SIZES,
    AttentionTiles,
    attention_tiles,
    fitting_tiles,
)
from daedal.compiler.ops.listed_space import ListedSpace, Row
from daedal.compiler.ops.space import Config, Table

__all__ = ["GpuAttentionSpace", "gpu_attention_space"]

Reals = npt.NDArray[np.float64]

_ORDER = [*itertools.product(SIZES, SIZES), *((1, threads) for threads in SINGLE_THREADS)]
_KNOBS = ("rows", "columns", "stages")
BARRIERS = 150.0
"""Cycles of a thread for the barriers of a step, assumed."""
COPY = 400.0
"""Cycles until the keys of a step are there, if no other step runs in the meantime, assumed."""
SCORE = 8.0
"""Products that take as long as a weight does, assumed."""


class GpuAttentionSpace(ListedSpace[AttentionTiles]):
    """Tiles of attention.

    Parameters
    ----------
    found : the tiles; the rule's is the first.
    form : what is computed.
    """

    def __init__(self, found: Mapping[Row, AttentionTiles], form: AttentionForm) -> None:
        super().__init__(_KNOBS, found)
        self._form = form

    @property
    def default(self) -> Config:
        """The rule's tiles."""
        first = next(iter(self._found))
        return Config(tuple(zip(_KNOBS, first, strict=True)))

    def cycles(self, table: Table) -> Reals:
        """See `Space`: of all threads, one after the other."""
        return np.array([self._cycles(item) for item in self.items(table)])

    def features(self, table: Table) -> dict[str, Reals]:
        """See `Space`."""
        found = self.items(table)
        return {
            **{knob: table[knob].astype(np.float64) for knob in _KNOBS},
            "threads": np.array([float(item.threads) for item in found]),
            "blocks": np.array([float(self._blocks(item)) for item in found]),
        }

    def _blocks(self, tiles: AttentionTiles) -> int:
        images = math.prod(axis.extent for axis in self._form.batch)
        return images * -(-self._form.rows // tiles.rows)

    def _cycles(self, tiles: AttentionTiles) -> float:
        """Products and weights of each step, copies and barriers."""
        form = self._form
        elements = form.depth + form.width
        work = tiles.rows * tiles.columns * (elements + SCORE) + tiles.columns * elements
        steps = -(-form.columns // tiles.columns)
        own = steps * (work / tiles.threads + BARRIERS + COPY / tiles.stages)
        return self._blocks(tiles) * tiles.threads * own


def gpu_attention_space(kernel: Kernel, *, has_warps: bool = True) -> GpuAttentionSpace | None:
    """The tiles of a kernel of attention; None where it has none."""
    form, rule = attention_form(kernel), attention_tiles(kernel, has_warps=has_warps)
    if form is None or rule is None:
        return None
    found = sorted(fitting_tiles(form), key=lambda item: _ORDER.index((item.rows, item.columns)))
    listed: dict[Row, AttentionTiles] = {
        (item.rows, item.columns, item.stages): item for item in (rule, *found)
    }
    return GpuAttentionSpace(listed, form)
