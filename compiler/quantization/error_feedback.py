"""Rounds a matrix of weights to few bits so that its products change little.

Rounding one weight changes the product; the weights of the same output that are not rounded yet
make up for it, as far as their inputs go together with the rounded one's.

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (ICLR 2023), algorithm 1; the largest inputs come first, as in its reference code.
"""

from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.graph import Array
from daedal.isa.numerics import integer_range

__all__ = ["RoundedWeights", "round_with_feedback"]

_DAMPING = 0.01
"""Added to the diagonal of the moments, as a share of its mean: inputs that samples do not tell
apart would get huge corrections."""

_SHARES = np.linspace(1.0, 0.5, 26)
"""Of the scale at which the largest weight just fits: smaller ones clip it for finer steps."""


@dataclass(frozen=True)
class RoundedWeights:
    """Weights in steps.

    Attributes
    ----------
    steps : (outputs, inputs) int8.
    scales : (outputs,) float64, positive.
    """

    steps: Array
    scales: Array


def round_with_feedback(weights: Array, moments: Array, bits: int) -> RoundedWeights:
    """Round `weights` (outputs, inputs) to signed integers of `bits`, with a scale per output.

    Parameters
    ----------
    moments : (inputs, inputs) float64: sums of products of two inputs over samples.
    """
    weights = weights.astype(np.float64)
    diagonal = np.diag(moments).copy()
    known = diagonal.mean() if diagonal.any() else 1.0
    damped = moments + np.eye(len(moments)) * (_DAMPING * known)
    scales = _scales(weights, np.diag(damped), bits)
    order = np.argsort(-diagonal, kind="stable")
    steps = np.empty_like(weights)
    steps[:, order] = _round(weights[:, order], damped[np.ix_(order, order)], scales, bits)
    return RoundedWeights(steps.astype(np.int8), _fitted(weights, steps, damped, scales))


def _scales(weights: Array, importance: Array, bits: int) -> Array:
    """Of each output, the scale with the least squared change, inputs weighted by `importance`."""
    _, high = integer_range(bits)
    largest = np.abs(weights).max(axis=1, initial=0) / high
    largest = np.where(largest > 0, largest, 1.0)
    best, least = largest, np.full(len(weights), np.inf)
    for share in _SHARES:
        scales = largest * share
        change = weights - _steps(weights, scales, bits) * scales[:, None]
        cost = np.square(change) @ importance
        best = np.where(cost < least, scales, best)
        least = np.minimum(cost, least)
    return best


def _steps(weights: Array, scales: Array, bits: int) -> Array:
    return np.clip(np.rint(weights / scales[:, None]), *integer_range(bits))


def _round(weights: Array, moments: Array, scales: Array, bits: int) -> Array:
    """Column by column; the rest of a row takes the change."""
    left = weights.copy()
    upper = np.linalg.cholesky(np.linalg.inv(moments)).T
    steps = np.empty_like(left)
    for column in range(left.shape[1]):
        steps[:, column] = _steps(left[:, column : column + 1], scales, bits)[:, 0]
        change = (left[:, column] - steps[:, column] * scales) / upper[column, column]
        left[:, column + 1 :] -= np.outer(change, upper[column, column + 1 :])
    return steps


def _fitted(weights: Array, steps: Array, moments: Array, scales: Array) -> Array:
    """The best scales for these steps: least squares, output by output."""
    products = steps @ moments
    size = np.sum(products * steps, axis=1)
    fitted = np.sum(products * weights, axis=1) / np.where(size > 0, size, 1.0)
    return np.where((size > 0) & (fitted > 0), fitted, scales)
