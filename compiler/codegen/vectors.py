"""Weights of the depthwise modes: channel vectors in weight rows.

Their tensors have the shape (..., taps, block); the `taps` vectors of one product are a *group*.
Weight rows hold `block_out` vectors each. From vector 0 of the tensor, groups fill consecutive
slots of `group_pitch` vectors, so that no group crosses the end of a row. LOAD moves whole rows, so
a part of the tensor keeps its position within the row on chip.
"""

import math
from collections.abc import Sequence

from daedal.common.errors import ScheduleError

__all__ = ["group_pitch", "num_rows", "run_of_groups"]


def group_pitch(taps: int) -> int:
    """Vectors from one group of `taps` vectors to the next: the next power of two."""
    return 1 << (taps - 1).bit_length()


def num_rows(groups: int, taps: int, block_out: int) -> int:
    """Weight rows for `groups` groups that start at the beginning of a row."""
    return -(-groups * group_pitch(taps) // block_out)


def run_of_groups(
    name: str, shape: Sequence[int], begin: Sequence[int], extents: Sequence[int]
) -> tuple[int, int]:
    """(number of the first group, number of groups) of a box of a tensor.

    Parameters
    ----------
    shape, begin, extents : shape of the tensor `name`, first element and extents of the box, all
        without the last dimension (the channels); the one before it holds the taps.

    Raises
    ------
    ScheduleError
        The groups of the box are not contiguous.
    """
    outer = next((dim for dim, size in enumerate(extents[:-1]) if size > 1), len(extents) - 1)
    if tuple(extents[outer + 1 :]) != tuple(shape[outer + 1 :]) or extents[-1] != shape[-1]:
        raise ScheduleError(
            f"channel vectors must be loaded in one run, not as a box of {list(extents)} out of "
            f"{list(shape)} ({name!r}); tile the outermost dimension alone"
        )
    first = 0
    for size, low in zip(shape[:-1], begin[:-1], strict=True):
        first = first * size + low
    return first, math.prod(extents[:-1])
