"""Schedule primitives: transformations of the loop IR that keep its meaning and its rules."""

from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.replay import replay
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.schedule.trace import Instruction, Trace

__all__ = ["BlockRef", "Instruction", "LoopRef", "Schedule", "Trace", "replay"]
