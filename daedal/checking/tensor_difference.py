"""`TensorDifference`: the difference between a found tensor and the expected one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NUM_SHOWN", "Element", "TensorDifference", "compare", "ranges_text"]

NUM_SHOWN = 8
"""Number of differing elements that are kept with their values."""


@dataclass(frozen=True)
class Element:
    """One element that differs, at `index` of the tensor."""

    index: tuple[int, ...]
    expected: int
    found: int


@dataclass(frozen=True)
class TensorDifference:
    """Differences between two integer tensors of the same shape.

    Attributes
    ----------
    shape : (N, C, H, W) for tensors of the accelerator; N counts the items of all runs.
    num_different : elements that are not equal.
    largest : difference of two elements.
    first : the first `NUM_SHOWN` of them, in order.
    places : for each axis, the indices where anything differs.
    """

    shape: tuple[int, ...]
    num_different: int
    largest: int
    first: tuple[Element, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def num_elements(self) -> int:
        """Elements that were compared."""
        return int(np.prod(self.shape))

    def joined(self, other: "TensorDifference") -> "TensorDifference":
        """This difference combined with that of further items of the same tensor."""
        items = self.shape[0]
        after = (
            Element((items + element.index[0], *element.index[1:]), element.expected, element.found)
            for element in other.first
        )
        shifted = tuple(items + place for place in other.places[0])
        rest = zip(self.places[1:], other.places[1:], strict=True)
        return TensorDifference(
            (items + other.shape[0], *self.shape[1:]),
            self.num_different + other.num_different,
            max(self.largest, other.largest),
            (*self.first, *after)[:NUM_SHOWN],
            (
                (*self.places[0], *shifted),
                *(tuple(sorted({*mine, *others})) for mine, others in rest),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for reports."""
        return {
            "shape": list(self.shape),
            "num_elements": self.num_elements,
            "num_different": self.num_different,
            "largest": self.largest,
            "first": [
                {"index": list(item.index), "expected": item.expected, "found": item.found}
                for item in self.first
            ],
            "places": [list(places) for places in self.places],
        }


def compare(expected: npt.NDArray[Any], found: npt.NDArray[Any]) -> TensorDifference:
    """Compare two integer tensors of one shape, which must have axes."""
    assert expected.shape == found.shape and expected.ndim, "the shapes must be one"
    distance = np.abs(found.astype(np.int64) - expected.astype(np.int64))
    indices = np.argwhere(distance)
    first = tuple(
        Element(tuple(int(k) for k in index), int(expected[tuple(index)]), int(found[tuple(index)]))
        for index in indices[:NUM_SHOWN]
    )
    return TensorDifference(
        tuple(found.shape),
        len(indices),
        int(distance.max(initial=0)),
        first,
        tuple(tuple(int(k) for k in np.unique(axis)) for axis in indices.T),
    )


def ranges_text(numbers: Iterable[int], limit: int = 6) -> str:
    """Ascending numbers in ranges, ``0-3, 7``; after `limit` ranges, ``...``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{low}" if low == high else f"{low}-{high}" for low, high in ranges[:limit]]
    return ", ".join([*texts, "..."] if len(ranges) > limit else texts)
