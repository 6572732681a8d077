"""Bounds the ranges of masked scores: a mask of -10000 would leave the scores no steps."""

from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.plan import MaskedScores, Plan
from daedal.compiler.quantization.ranges import Range

__all__ = ["bound_masks"]

_NEGLIGIBLE = 16.0
"""A score that is less than the largest of its row by this much has a probability of 1e-7, which
is 0 in 8 bits."""


def bound_masks(network: Network, plan: Plan, ranges: dict[str, Range]) -> None:
    """Replace the ranges of masked scores and of masks that are computed.

    A score counts if its mask is 0. It is at least the lowest score of the samples, and a masked
    one at most the highest score, plus the mask. So a mask needs to be no lower than the difference
    and `_NEGLIGIBLE` more: lower ones saturate.
    """
    lowest: dict[str, float] = {}
    for item in plan.masked:
        scores = ranges[item.scores]
        limit = scores.low - scores.high - _NEGLIGIBLE
        whole = _range_of(network, item, ranges)
        # A mask that is computed may hide more than in the samples, which may hide nothing.
        low = limit if item.mask in ranges else max(whole.low, limit)
        bounded = Range(low, whole.high)
        ranges[item.result] = Range(scores.low + bounded.low, scores.high + bounded.high)
        if item.mask in ranges:
            lowest[item.mask] = min(bounded.low, lowest.get(item.mask, 0.0))
    for name, group in plan.groups.items():
        for mask, low in lowest.items():
            if group == plan.groups[mask]:
                ranges[name] = Range(low, ranges[name].high)


def _range_of(network: Network, item: MaskedScores, ranges: dict[str, Range]) -> Range:
    if item.mask in ranges:
        return ranges[item.mask]
    value = network.constants[item.mask]
    return Range(min(float(value.min()), 0.0), max(float(value.max()), 0.0))
