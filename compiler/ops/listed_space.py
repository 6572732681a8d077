"""`ListedSpace`: a space whose configurations are listed, as rules for tiles find them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.space import Config, Space, Table

__all__ = ["ListedSpace", "Row"]

T = TypeVar("T")
Row = tuple[int, ...]
"""The values of a configuration."""


class ListedSpace(Space, Generic[T]):
    """Configurations with what they stand for.

    Parameters
    ----------
    names : of the knobs.
    found : at least one, by the values of the knobs; the default is the first of the best.
    """

    def __init__(self, names: Sequence[str], found: Mapping[Row, T]) -> None:
        self._names = tuple(names)
        self._found = found

    def chosen(self, config: Config) -> T:
        """What a configuration stands for. Raises ScheduleError where it is none of this space."""
        table = self.table([config])
        if not self.fits(table)[0]:
            raise ScheduleError(f"a schedule must be one of {self}; {config} is not")
        return self.items(table)[0]

    @property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        """See `Space`."""
        columns = zip(*self._found, strict=True)
        return {
            name: sorted(set(column)) for name, column in zip(self._names, columns, strict=True)
        }

    def fits(self, table: Table) -> npt.NDArray[np.bool_]:
        """See `Space`: whether it is listed."""
        return np.array([row in self._found for row in self._rows(table)], dtype=np.bool_)

    def all(self) -> Table:
        """See `Space`; in the order of the list."""
        columns = zip(*self._found, strict=True)
        return {
            name: np.array(column, dtype=np.int64)
            for name, column in zip(self._names, columns, strict=True)
        }

    def items(self, table: Table) -> list[T]:
        """What configurations that fit stand for."""
        return [self._found[row] for row in self._rows(table)]

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        return f"{len(self._found)} tiles"

    def _rows(self, table: Table) -> Iterator[Row]:
        return zip(*(table[name].tolist() for name in self._names), strict=True)
