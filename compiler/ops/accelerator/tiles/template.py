"""`Template`: all schedules of one layer, each by a configuration of its space."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.schedule import Schedule

__all__ = ["Template", "TileTemplate"]


class Template(Protocol):
    """The schedules of one layer on one variant."""

    @property
    def space(self) -> LayerSpace:
        """Its configurations."""
        ...

    def schedule(self, config: Config | None = None) -> Schedule:
        """The schedule of a configuration; of the default if none is given.

        Raises
        ------
        ScheduleError
            The configuration is none of `space`, or nothing fits the scratchpads.
        """
        ...


@dataclass(frozen=True)
class TileTemplate:
    """A template that gives each configuration of `space` to `build`."""

    space: LayerSpace
    build: Callable[[Config], Schedule]

    def schedule(self, config: Config | None = None) -> Schedule:
        """As `Template.schedule` says."""
        if config is None:
            return self.build(self.space.default)
        if not self.space.fits(self.space.table([config])).all():
            raise ScheduleError(
                f"a configuration must fit the template and the scratchpads, not {config}; choose "
                "one that the layer's space lists"
            )
        return self.build(config)
