"""`Attended`: the tensors of one attention."""

from dataclasses import dataclass

from daedal.compiler import te

__all__ = ["Attended"]


@dataclass(frozen=True)
class Attended:
    """Tensors of one attention.

    Attributes
    ----------
    products : of queries and keys.
    scores : what its softmax reads.
    weights : what this gives.
    result : weighted means of values.
    is_guarded : whether weights are 0 where all keys are masked, and not NaN.
    """

    products: te.Tensor
    scores: te.Tensor
    weights: te.Tensor
    result: te.Tensor
    is_guarded: bool = False
