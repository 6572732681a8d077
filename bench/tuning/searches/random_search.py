"""`Random`: configurations drawn uniformly, the baseline of the other searches."""

from daedal.compiler.tune.candidates import Rows
from daedal.compiler.tune.search import NumberedSearch

__all__ = ["Random"]


class Random(NumberedSearch):
    """Proposes configurations at random, without replacement."""

    def choose(self, count: int) -> Rows:
        """Open rows, drawn uniformly."""
        return self.draw(count)
