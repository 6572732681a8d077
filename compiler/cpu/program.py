"""`TensorProgram`: a model in tensor expressions, as `compiler.cpu.importer` makes it."""

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
import onnx

from daedal.artifact.constants import Change
from daedal.compiler import te
from daedal.compiler.ops.attended import Attended
from daedal.compiler.ops.onnx.operation import ResultType

__all__ = [
    "OWN",
    "STANDARD",
    "Computed",
    "Interpreted",
    "Joined",
    "TensorProgram",
    "View",
    "name_in_model",
    "own_name",
]

Array = npt.NDArray[Any]

STANDARD = ("", "ai.onnx")
"""Names of ONNX's standard domain."""
OWN = "\0"
"""Begins the names of tensors that the model does not have, and no model can."""


def own_name(number: int, needed_by: str) -> str:
    """The name of a tensor that the model does not have, and that one of the model's needs; other
    such names may begin with it."""
    return f"{OWN}{number}{OWN}{needed_by}{OWN}"


def name_in_model(name: str) -> str:
    """A tensor's own name, or that of the one that needs it; empty where it is not known."""
    own, *added = name.split(OWN)
    return added[1] if len(added) > 1 else own


@dataclass(frozen=True)
class Computed:
    """A node as tensors, one per result."""

    names: tuple[str, ...]
    tensors: tuple[te.Tensor, ...]


@dataclass(frozen=True)
class View:
    """A tensor with the elements of `source` in the same order."""

    name: str
    source: str


@dataclass(frozen=True)
class Joined:
    """The tensors `sources` one after the other along `axis`."""

    name: str
    sources: tuple[str, ...]
    axis: int


@dataclass(frozen=True)
class Interpreted:
    """A node without a tensor expression, and why."""

    node: onnx.NodeProto
    reason: str


@dataclass
class TensorProgram:
    """A model in tensor expressions.

    Attributes
    ----------
    tensors : placeholder or computation of every tensor of static type, by name.
    types : ONNX's shape and numpy's dtype of these.
    opsets : versions of the operator sets by domain.
    constants : values by name.
    changed : constants that are made of others where code is loaded: of what, and how.
    laid_out : constants that lie in memory as kernels read them.
    attentions : that one kernel may compute.
    """

    opsets: tuple[tuple[str, int], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: list[Computed | View | Joined | Interpreted] = field(default_factory=list)
    tensors: dict[str, te.Tensor] = field(default_factory=dict)
    types: dict[str, ResultType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    changed: dict[te.Tensor, tuple[Array, tuple[Change, ...]]] = field(default_factory=dict)
    laid_out: set[te.Tensor] = field(default_factory=set)
    attentions: tuple[Attended, ...] = ()

    @property
    def opset(self) -> int:
        """Version of the standard operator set."""
        return max((version for domain, version in self.opsets if domain in STANDARD), default=1)
