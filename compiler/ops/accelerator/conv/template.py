"""`ConvTemplate`: all schedules of one convolution, alone or with an operator fused after it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from daedal.compiler.ops.accelerator.conv.conv2d import schedule_conv2d
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.space import (
    ConvSpace,
    best_tile,
    decode,
    useful_gathers,
)
from daedal.compiler.ops.conv2d import Gather
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant

__all__ = ["ConvTemplate"]

Build = Callable[[Gather | None], tuple[PrimFunc, ConvShape]]
"""Makes the function with a `Gather`, or with the default one, and its shape."""


class ConvTemplate:
    """The schedules of the convolution that `build` makes."""

    def __init__(self, build: Build, variant: Variant) -> None:
        self._build = build
        self._variant = variant
        self._func, self._shape = build(None)
        self._shapes = [replace(self._shape, gather=item) for item in useful_gathers(self._shape)]

    @cached_property
    def space(self) -> ConvSpace:
        """Its configurations."""
        return ConvSpace(self._shapes, self._variant)

    def schedule(self, config: Config | None = None) -> Schedule:
        """The schedule of a configuration; of the default if none is given.

        Raises
        ------
        ScheduleError
            The configuration is none of `space`, or not even the smallest tile fits.
        """
        if config is None:
            gather, tile = best_tile(self._shapes, self._variant)
        else:
            config = self.space.complete(config)
            self.space.check(config)
            gather, tile = decode(config, self._shape)
        func, shape = self._func, self._shape
        if gather is not shape.gather:
            func, shape = self._build(gather)
        return schedule_conv2d(func, shape, self._variant, tile)
