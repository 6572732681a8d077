"""Handles by which a schedule refers to blocks and loops."""

from dataclasses import dataclass

from daedal.compiler.tir.expr import Var

__all__ = ["BlockRef", "Handle", "LoopRef"]


@dataclass(frozen=True)
class BlockRef:
    """A block, by its name; stays valid while the block exists, wherever it moves."""

    name: str


@dataclass(frozen=True)
class LoopRef:
    """A loop, by its variable; stays valid until a primitive consumes the loop."""

    var: Var

    @property
    def name(self) -> str:
        """The name of the loop's variable."""
        return self.var.name


Handle = BlockRef | LoopRef
