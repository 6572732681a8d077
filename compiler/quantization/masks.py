"""Bounds the ranges of masked scores: a mask of -10000 would leave the scores no steps."""

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.plan import MaskedScores, Plan

__all__ = ["bound_attention_masks", "bound_masks"]

_NEGLIGIBLE = 16.0
"""A score that is less than the largest of its row by this much has a probability of 1e-7, which
is 0 in 8 bits."""


_LOWEST = -128
_STEPS = 512
"""Then a whole number of steps of scores is wrong by at most 2**-10, which `lower_attention`
takes."""


def bound_masks(graph: Graph, plan: Plan, ranges: dict[str, Range]) -> None:
    """Replace the ranges of masked scores and of masks that are computed.

    A score counts if its mask is 0. It is at least the lowest score of the samples, and a masked
    one at most the highest score, plus the mask. So a mask needs to be no lower than the difference
    and `_NEGLIGIBLE` more: lower ones saturate.
    """
    lowest: dict[str, float] = {}
    for item in plan.masked:
        scores = ranges[item.scores]
        limit = scores.low - scores.high - _NEGLIGIBLE
        whole = _range_of(graph, item, ranges)
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


def bound_attention_masks(plan: Plan, ranges: dict[str, Range]) -> None:
    """Replace the ranges of computed masks of attention whose scores are not quantized.

    The lowest value is that of `bound_masks`. A step is `_STEPS` steps of scores or more, so that
    the compiler, which multiplies by a whole number of them, is wrong by little.
    """
    steps: dict[str, float] = {}
    for item in plan.attentions:
        if item.mask is None or item.mask not in plan.groups:
            continue
        scores = ranges[item.scores]
        needed = (scores.high - scores.low + _NEGLIGIBLE) / -_LOWEST
        scales = [float(ranges[x].symmetric_quantization()[0]) for x in (item.queries, item.keys)]
        group = plan.groups[item.mask]
        step = max(needed, _STEPS * scales[0] * scales[1] * item.factor)
        steps[group] = max(step, steps.get(group, 0.0))
    for name, group in plan.groups.items():
        if group in steps:
            # The scale of a symmetric quantization, whose largest integer is 127.
            ranges[name] = Range(-127 * steps[group], 0.0)


def _range_of(graph: Graph, item: MaskedScores, ranges: dict[str, Range]) -> Range:
    if item.mask in ranges:
        return ranges[item.mask]
    value = graph.constant(item.mask)
    return Range(min(float(value.min()), 0.0), max(float(value.max()), 0.0))
