"""`Tools`: what a compilation has for all its parts."""

from collections.abc import Callable
from dataclasses import dataclass

from daedal.compiler.dump import Dump
from daedal.compiler.layers.layer_code import LayerCode
from daedal.compiler.layers.program_builder import ProgramBuilder

__all__ = ["Tools"]


@dataclass(frozen=True)
class Tools:
    """What a compilation has for all its parts.

    Attributes
    ----------
    builder : builds programs for the variant.
    code : the code of layers, of earlier launches too.
    dump : receives every intermediate form.
    say : called with a sentence before each long step.
    """

    builder: ProgramBuilder
    code: LayerCode
    dump: Dump
    say: Callable[[str], None]
