"""`Runner`: measures configurations of one layer; `Result`, what it finds for each.

The runners are `LayerRunner` (in this process), `ProcessRunner` (in child processes, with
timeouts) and `PoolRunner` (on the workers of a pool). Each takes a whole batch, so that one that
measures time on a clock can interleave its candidates.
"""

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from daedal.common.errors import TuningError
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.workload import Workload
from daedal.isa.memory_file import AnyMemory
from daedal.isa.variant import Variant

__all__ = ["Failure", "MakeRunner", "Result", "Runner", "cycles_of", "digest_of"]


class Failure(enum.StrEnum):
    """Why a configuration has no cycles."""

    BUILD = "does not build"
    TIMEOUT = "timed out"
    CRASH = "crashed"
    WRONG = "gave wrong bytes"


@dataclass(frozen=True)
class Result:
    """What one configuration takes: `cycles`, or the `failure` and its `reason` in words.

    `digest` is that of the bytes which the layer stored; empty where it stored none.
    """

    cycles: int | None
    digest: str = ""
    failure: Failure | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        assert (self.cycles is None) == (self.failure is not None)

    @classmethod
    def failed(cls, failure: Failure, reason: str, digest: str = "") -> "Result":
        """A configuration without cycles."""
        return cls(None, digest, failure, reason)


class Runner(Protocol):
    """Measures configurations of the layer of one workload."""

    workload: Workload

    @property
    def limit_seconds(self) -> float:
        """What a configuration may take; infinite where nothing ends it."""

    def results(self, configs: Sequence[Config]) -> list[Result]:
        """The result of each configuration; bytes have been compared with the interpreter's."""

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """`cycles_of` the results."""


class MakeRunner(Protocol):
    """Makes the runner of a layer: the class `LayerRunner`, or `Pool.runner`."""

    def __call__(
        self, graph: Graph, node: Node, variant: Variant, memory: AnyMemory = "ddr"
    ) -> Runner:
        """The runner of the layer `node` of `graph`."""


def digest_of(data: bytes) -> str:
    """SHA-256 of a layer's result, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def cycles_of(configs: Sequence[Config], results: Sequence[Result]) -> list[int | None]:
    """Cycles of each configuration; None for one that does not build, timed out or crashed.

    Raises
    ------
    TuningError
        A configuration gave wrong bytes: a bug of the compiler, which tuning must not hide.
    """
    for config, result in zip(configs, results, strict=True):
        if result.failure is Failure.WRONG:
            raise TuningError(
                f"every configuration must compute its layer, and this one does not "
                f"({result.reason}): {config}; report it as a bug of the compiler"
            )
    return [result.cycles for result in results]
