"""`LeftOut`: what a bench was asked for and could not run, and why.

A bench says so at its end and in its file, and its exit status is then 1, as what was not run has
not passed.
"""

from collections.abc import Callable

__all__ = ["LeftOut"]


class LeftOut:
    """Collects a sentence for everything that is not run; false while there is none."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}

    def add(self, what: str, why: str) -> None:
        """`why` goes on from `what`: "needs the folder ../shared". The same is said once."""
        self._sentences[f"{what} {why}"] = None

    def __bool__(self) -> bool:
        return bool(self._sentences)

    @property
    def sentences(self) -> list[str]:
        """In the order in which they were added."""
        return list(self._sentences)

    def show(self, tell: Callable[[str], object]) -> None:
        """A line for each."""
        for sentence in self._sentences:
            tell(f"not run: {sentence}")

    def to_json(self) -> list[dict[str, str]]:
        """As the benches write it."""
        return [{"reason": sentence} for sentence in self._sentences]
