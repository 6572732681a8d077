"""Skips products with weights that are 0 by their layout.

Windows over a stream of pixels take fewer vectors in some phases than in others, and all phases
have rows for as many as the one with most (`daedal.compiler.graph.stream_layout`). Input: the
annotation of a block of products. Output: ranges of its loops.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from daedal.compiler.codegen.forms import BlockForm, Form, RegionForm
from daedal.compiler.tir.expr import Var

__all__ = ["ZERO_WEIGHTS", "ZeroWeights", "zero_weights", "zeros_of"]

ZERO_WEIGHTS = "zero_weights"
"""Annotation of a block of products: a text of `zero_weights`."""


def zero_weights(dimension: int, limited: int, counts: Sequence[int]) -> str:
    """An annotation: of dimension `limited` of the weights, all but the first indices hold zeros,
    as many as `counts` says for the index of another `dimension`, at least one."""
    return ",".join(map(str, (dimension, limited, *counts)))


class ZeroWeights(NamedTuple):
    """What the annotation says of the weights of a block.

    Parameters
    ----------
    place, limited : their indices in the two dimensions.
    counts : how many of the second do not hold zeros, by the value of the first.
    """

    place: Form
    limited: Form
    counts: tuple[int, ...]

    def leave_out(self, ranges: dict[Var, range], env: Mapping[Var, int]) -> None:
        """Take the iterations with weights of 0 from the range of the loop that moves the second
        index, if there is only one. `env` binds the loops that move the first index."""
        limited = self.limited.at(env)
        if limited.expr is not None or len(limited.terms) != 1:
            return
        ((var, factor),) = limited.terms
        end = -(-(self.counts[self.place.value(env)] - limited.constant) // factor)
        if factor > 0 and end > ranges[var].start:
            ranges[var] = range(ranges[var].start, min(ranges[var].stop, end))


def zeros_of(form: BlockForm, weights: RegionForm) -> ZeroWeights | None:
    """What the annotation of `form` says, whose products read `weights`; None without one."""
    text = form.annotations.get(ZERO_WEIGHTS)
    if text is None:
        return None
    dimension, limited, *counts = map(int, str(text).split(","))
    return ZeroWeights(weights.minima[dimension], weights.minima[limited], tuple(counts))
