"""Groups the outputs of a convolution by which taps of their window fall on padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.graph.ops.registry import Attrs, ints

__all__ = ["PaddingClasses"]

_Taps = tuple[bool, ...]


@dataclass(frozen=True)
class PaddingClasses:
    """Classes of outputs for which the same taps of the window lie outside the map.

    Along an axis these are usually the outputs at the beginning, in the middle, and at the end;
    wide pads make more. A class combines a class of rows with one of columns. The numbers are
    row-major.

    Parameters
    ----------
    rows, columns : the class of every row and column of the result.
    taps_above, taps_beside : for each class, which rows and columns of the window lie outside.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    taps_above: tuple[_Taps, ...]
    taps_beside: tuple[_Taps, ...]

    @classmethod
    def of(
        cls, extents: Sequence[int], kernel: Sequence[int], outputs: Sequence[int], attrs: Attrs
    ) -> "PaddingClasses":
        """From the (rows, columns) of the map, of the window and of the result, and the node's
        attributes."""
        classes, taps = [], []
        for axis in range(2):
            outside = [
                _outside(
                    output * ints(attrs, "strides")[axis] - ints(attrs, "pads")[axis],
                    ints(attrs, "dilations")[axis],
                    kernel[axis],
                    extents[axis],
                )
                for output in range(outputs[axis])
            ]
            known = list(dict.fromkeys(outside))
            classes.append(tuple(known.index(item) for item in outside))
            taps.append(tuple(known))
        return cls(classes[0], classes[1], taps[0], taps[1])

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.taps_above) * len(self.taps_beside)

    @property
    def table(self) -> list[list[int]]:
        """The class of each output (OH, OW)."""
        width = len(self.taps_beside)
        return [[row * width + column for column in self.columns] for row in self.rows]

    def outside(self) -> npt.NDArray[Any]:
        """(classes, KH, KW) bool: the taps that lie outside the map."""
        above, beside = np.array(self.taps_above), np.array(self.taps_beside)
        either = above[:, None, :, None] | beside[None, :, None, :]
        return np.asarray(either.reshape(self.count, *either.shape[2:]))

    def share_inside(self) -> float:
        """Share of all products that read the map rather than padding."""
        inside = 1.0
        for classes, taps in ((self.rows, self.taps_above), (self.columns, self.taps_beside)):
            inside *= 1 - np.mean([np.mean(taps[number]) for number in classes])
        return float(inside)


def _outside(first: int, dilation: int, taps: int, size: int) -> _Taps:
    return tuple(not 0 <= first + tap * dilation < size for tap in range(taps))
