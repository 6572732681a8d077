"""`ImportedOperator`: an operator of ONNX, its importer, where it runs, and under which limits."""

from collections.abc import Callable
from dataclasses import dataclass

from daedal.artifact.parts import PLACES
from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode

__all__ = [
    "ACCELERATOR",
    "BY_ROWS",
    "BY_TABLE",
    "FLOAT",
    "FOLDED",
    "HOST",
    "PLANE",
    "ImportedOperator",
    "Importer",
]

Importer = Callable[[ImportContext, OnnxNode], None]

ACCELERATOR, HOST, FOLDED, *_ = PLACES

BY_TABLE = "on the accelerator if the variant has tables: as a function of one tensor"
PLANE = "one or two spatial dimensions"
FLOAT = "in floating point"
BY_ROWS = (
    "on the accelerator over the last axis, if the variant has tables, units.lane_reductions and "
    "units.wide_requantize"
)


@dataclass(frozen=True)
class ImportedOperator:
    """An operator of ONNX's standard domain.

    Parameters
    ----------
    importer : adds its nodes to the graph, or refuses them. None: a node stays as it is.
    where : where a node runs between quantized tensors, one of `artifact.parts.PLACES`.
    limits : conditions that a node must meet for that; others run on the host.
    """

    importer: Importer | None
    where: str
    limits: str = ""

    def __post_init__(self) -> None:
        assert self.where in PLACES, self.where
