"""`Measured`: a figure of a bench with its bar, as it is printed and written."""

from dataclasses import dataclass

__all__ = ["Measured", "shown"]


@dataclass(frozen=True)
class Measured:
    """A figure and its bar: at least `bar`, or exactly that where `exact`."""

    name: str
    value: float
    bar: float | None
    exact: bool = False
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the bar holds."""
        if self.bar is None:
            return True
        return self.value == self.bar if self.exact else self.value >= self.bar


def shown(record: Measured) -> Measured:
    """The record, after it was printed."""
    bar = "" if record.bar is None else f"  bar {record.bar:g}"
    bar += "" if record.passed else "  MISSED"
    print(f"{record.name}: {record.value:.4g}{bar}  {record.note}".rstrip(), flush=True)
    return record
