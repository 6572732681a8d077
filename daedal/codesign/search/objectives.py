"""What a search minimizes, and the limits that a result has to keep.

Input: cycles, clock and resources of a variant. Output: one number for each objective.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from daedal.common.errors import ExploreError
from daedal.hw.synth.families import HARD_LIMIT, RESOURCES

__all__ = [
    "USABLE",
    "Limit",
    "Objective",
    "geometric_mean",
    "latency_ms",
    "parse_limits",
    "parse_objectives",
]


class Objective(StrEnum):
    """Names on the command line.

    latency: milliseconds for one run, the host's included, the geometric mean of the networks.
    area: the largest share of any resource of the device, in percent. energy: of one run, relative
    (`energy.Energy`), the geometric mean of the networks.
    """

    latency = "latency"
    area = "area"
    energy = "energy"


@dataclass(frozen=True)
class Limit:
    """What `Evaluation.value` gives for `measure` may be `most` at most.

    Attributes
    ----------
    measure : an objective, or one of `RESOURCES`, in percent of the device.
    """

    measure: str
    most: float

    def __str__(self) -> str:
        return f"{self.measure}={self.most:g}"

    @property
    def words(self) -> str:
        """For people."""
        units = {Objective.latency.value: " ms", Objective.energy.value: ""}
        unit = units.get(self.measure, " %")
        return f"{RESOURCES.get(self.measure, self.measure)} at most {self.most:g}{unit}"


USABLE = (
    Limit("lut", 85.0),
    Limit("ff", 85.0),
    Limit("dsp", 100 * HARD_LIMIT),
    Limit("block_ram", 100 * HARD_LIMIT),
)
"""What place and route can use of a device: it needs free look-up tables and flip-flops for a clock
of any use; of the hard blocks, nearly all serve."""


_MEASURES = (*Objective, *RESOURCES)
_ABSOLUTE = (Objective.latency, Objective.energy)
"""Others are percent of the device."""


def latency_ms(
    cycles: Mapping[str, float], mhz: float, host_ms: Mapping[str, float] | None = None
) -> float:
    """The geometric mean of the networks' milliseconds; `host_ms` are those of the host, which
    works before and after the accelerator."""
    host = host_ms or {}
    return geometric_mean(
        count / mhz / 1000 + host.get(name, 0.0) for name, count in cycles.items()
    )


def geometric_mean(values: Iterable[float]) -> float:
    """Of numbers above 0, at least one."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def parse_objectives(text: str) -> tuple[Objective, ...]:
    """From names separated by commas. Raises ExploreError for others, none, or one twice."""
    found = [part.strip() for part in text.split(",")]
    known = ", ".join(Objective)
    for name in found:
        if name not in set(Objective):
            raise ExploreError(f"objectives are {known}, separated by commas, not {name!r:.60}")
        if found.count(name) > 1:
            raise ExploreError(f"each objective is given once, not {name!r} twice")
    return tuple(Objective(name) for name in found)


def parse_limits(texts: Sequence[str]) -> tuple[Limit, ...]:
    """From texts such as ``latency=1.5`` (ms) and ``block_ram=75`` (%).

    Raises ExploreError for anything else, and for a measure that is limited twice.
    """
    found: list[Limit] = []
    for text in texts:
        name, _, number = text.partition("=")
        try:
            most = float(number)
        except ValueError:
            most = math.nan
        if name not in _MEASURES or not (0 < most < math.inf):
            raise ExploreError(
                f"a limit is an objective and a number above 0, such as latency=1.5, not "
                f"{text!r:.60}; limits are for {', '.join(_MEASURES)}"
            )
        if name not in _ABSOLUTE and most > 100:
            raise ExploreError(
                f"a limit of {name} is at most 100 percent of the device, not {number}"
            )
        if name in {limit.measure for limit in found}:
            raise ExploreError(f"each limit is given once, not that of {name} twice")
        found.append(Limit(name, most))
    return tuple(found)
