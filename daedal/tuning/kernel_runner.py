"""`KernelRunner`: builds, runs, checks and times configurations of one kernel.

A clock tells more of a machine's load than of a kernel, so each batch is timed in turn with the
default, which is loaded twice: code takes longer at some places in memory. A configuration takes
what the default took at first, times the median of its share of the better default's time in the
same round.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import DaedalError, first_line
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.workload import Workload
from daedal.tuning.runner import Failure, Result, cycles_of
from daedal.tuning.stopwatch import Stopwatch

__all__ = ["KernelRunner", "differs"]

Array = npt.NDArray[Any]

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""Of floats that are summed in another order; the second one of the largest result."""


class KernelRunner:
    """Measures configurations of a kernel, in nanoseconds.

    Parameters
    ----------
    build : the code of the kernel with a configuration, by the key of its workload.
    default : the configuration that all others are compared with.
    nanoseconds : what it took in an earlier run; None: not known.
    """

    limit_seconds = math.inf

    def __init__(
        self,
        workload: Workload,
        build: Callable[[Mapping[str, Config]], Any],
        default: Config,
        stopwatch: Stopwatch[Any],
        nanoseconds: int | None = None,
    ) -> None:
        self.workload = workload
        self._build = build
        self._default = default
        self._stopwatch = stopwatch
        self._nanoseconds = nanoseconds
        self._expected: Array | None = None

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """Nanoseconds of each configuration. Raises TuningError as `cycles_of`."""
        return cycles_of(configs, self.results(configs))

    def results(self, configs: Sequence[Config]) -> list[Result]:
        """See `Runner`."""
        codes: dict[Config, Any] = {}
        failed: dict[Config, Result] = {}
        for config in dict.fromkeys((self._default, *configs)):
            built = self._checked(config)
            if isinstance(built, Result):
                failed[config] = built
            else:
                codes[config] = built
        if self._default in failed:
            return [failed.get(config, failed[self._default]) for config in configs]
        times = self._stopwatch.times([*codes.values(), codes[self._default]])
        if isinstance(times, Result):
            return [failed.get(config, times) for config in configs]
        found = dict(zip(codes, self._nanoseconds_of(times), strict=True))
        assert self._nanoseconds is not None
        found[self._default] = self._nanoseconds
        return [failed[item] if item in failed else Result(found[item]) for item in configs]

    def _checked(self, config: Config) -> Any:
        """The code of a configuration whose result is the default's, or a failed `Result`."""
        try:
            code = self._build({self.workload.key: config})
        except DaedalError as error:
            return Result.failed(Failure.BUILD, first_line(error))
        found = self._stopwatch.result(code)
        if isinstance(found, Result):
            return found
        if self._expected is None:
            assert config == self._default, "the default comes first"
            self._expected = found
        problem = differs(found, self._expected)
        return Result.failed(Failure.WRONG, problem) if problem else code

    def _nanoseconds_of(self, times: Sequence[Sequence[int]]) -> list[int]:
        """Of each configuration; the default's times are the first and the last."""
        default = [min(pair) for pair in zip(times[0], times[-1], strict=True)]
        if self._nanoseconds is None:
            self._nanoseconds = max(round(statistics.median(default)), 1)
        shares = [
            statistics.median(one / other for one, other in zip(own, default, strict=True))
            for own in times[:-1]
        ]
        return [max(round(self._nanoseconds * share), 1) for share in shares]


def differs(found: Array, expected: Array) -> str:
    """How a result differs from the default's beyond the order of sums; empty if it does not."""
    if expected.dtype.kind != "f":
        wrong = int(np.count_nonzero(found != expected))
    else:
        finite = np.abs(expected[np.isfinite(expected)])
        most = float(finite.max()) if finite.size else 0.0
        close = np.isclose(found, expected, rtol=RELATIVE, atol=ABSOLUTE * most, equal_nan=True)
        wrong = int(np.count_nonzero(~close))
    return f"{wrong} of {expected.size} results differ from the default's" if wrong else ""
