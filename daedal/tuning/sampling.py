"""`Sampling`: which results of strangers are worked out again, to find workers that lie."""

import secrets

__all__ = ["Sampling"]

_ONE_IN = 8


class Sampling:
    """The first result of each worker, and later one in eight, which no worker can foresee.

    A worker whose results are all wrong is found at its first, before anything of it is kept.
    """

    def __init__(self, one_in: int = _ONE_IN) -> None:
        self._known: set[str] = set()
        self._one_in = one_in

    def takes(self, worker: str) -> bool:
        """Whether to check the next result of a worker."""
        if worker not in self._known:
            self._known.add(worker)
            return True
        return secrets.randbelow(self._one_in) == 0
