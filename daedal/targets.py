"""`add_target`: a target in addition to the accelerator and the processor."""

from daedal.compiler.targets import target as targets
from daedal.compiler.targets.target import Target
from daedal.runtime import target_parts
from daedal.runtime.target_parts import Loader

__all__ = ["add_target"]


def add_target(target: Target, loader: Loader) -> None:
    """Let models be compiled for `target`, too, and `loader` load its parts from artifacts.

    A node goes where it ends first, by the targets' own estimates. What runs an artifact in another
    process must call this there, too.
    """
    targets.add_target(target)
    target_parts.add_loader(target.name, loader)
