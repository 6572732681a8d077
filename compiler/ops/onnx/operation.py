"""`Operation`: one ONNX node with everything that its tensor expressions depend on.

A tensor of rank 0 is a `te.Tensor` of shape (1,): loops need an axis. `Operand.shape` and
`ResultType.shape` have ONNX's shape.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.ops.attended import Attended
from daedal.compiler.tir.expr import Expr, ExprLike, IntImm

__all__ = ["Array", "Lowering", "Operand", "Operation", "ResultType", "buffer_shape"]

Array = npt.NDArray[Any]


def buffer_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the `te.Tensor` for a tensor of ONNX: (1,) for rank 0."""
    return tuple(shape) or (1,)


@dataclass(frozen=True)
class ResultType:
    """Shape (ONNX's) and dtype (numpy's name) of a result, as shape inference gives them."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Operand:
    """An operand of a node.

    Attributes
    ----------
    tensor : what a formula reads.
    shape : ONNX's shape; rank 0 is allowed.
    constant : its value where it is known when the node is compiled.
    """

    tensor: te.Tensor
    shape: tuple[int, ...]
    constant: Array | None = None

    @property
    def dtype(self) -> str:
        """numpy's name of the element type."""
        return self.tensor.dtype

    @property
    def rank(self) -> int:
        """ONNX's rank."""
        return len(self.shape)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        """One element; ``()`` of a tensor of rank 0."""
        return self.tensor[indices or (0,) if isinstance(indices, tuple) else indices]

    def broadcast(self, indices: Sequence[Expr]) -> Expr:
        """The element that broadcasting puts at `indices` of a result of at least its rank.

        Source: ONNX, "Multidirectional Broadcasting".
        """
        own = list(indices)[len(indices) - self.rank :]
        return self[
            tuple(
                IntImm(0) if extent == 1 else index
                for index, extent in zip(own, self.shape, strict=True)
            )
        ]


@dataclass(frozen=True)
class Operation:
    """A node of the standard domain, its operands and the types of its results.

    Attributes
    ----------
    node : its attributes, through typed getters; `node.refuse` makes the error for what is not
        lowered.
    operands : None where an optional one is absent.
    results : None where an optional one is not asked for.
    prefix : begins the names of the tensors of this node, so that they differ from other nodes'.
    tables : where `table` records constants; None: a node that needs one is refused.
    attentions : where `attends` records them, if it does.
    """

    node: OnnxNode
    operands: tuple[Operand | None, ...]
    results: tuple[ResultType | None, ...]
    prefix: str
    tables: dict[te.Tensor, Array] | None = None
    attentions: list[Attended] | None = None
    _numbers: Any = field(default_factory=itertools.count, repr=False, compare=False)

    @property
    def opset(self) -> int:
        """Version of the standard operator set."""
        return self.node.opset

    @property
    def result(self) -> ResultType:
        """The type of the first result, which every node has."""
        assert self.results[0] is not None
        return self.results[0]

    def optional(self, index: int) -> Operand | None:
        """Operand number `index`, or None where it is absent."""
        return self.operands[index] if index < len(self.operands) else None

    def operand(self, index: int) -> Operand:
        """Operand number `index`. Raises ModelError where it is absent."""
        found = self.optional(index)
        if found is None:
            raise self.node.damaged(f"operand {index} must be given")
        return found

    def require(self, holds: bool, rule: str) -> None:
        """Raise ModelError with `rule`, which ONNX sets, unless it `holds`."""
        if not holds:
            raise self.node.damaged(rule)

    def constant(self, index: int) -> Array | None:
        """The value of operand number `index`, or None where it is absent.

        Raises UnsupportedError where it is only known at run time.
        """
        found = self.optional(index)
        if found is None:
            return None
        if found.constant is None:
            raise self.node.refuse(
                f"operand {index} must be constant to be compiled", "export the model with it"
            )
        return np.asarray(found.constant)

    def integers(self, index: int) -> tuple[int, ...] | None:
        """`constant` as whole numbers: axes, shapes, pads."""
        found = self.constant(index)
        return None if found is None else tuple(int(item) for item in found.reshape(-1))

    def compute(
        self, shape: Sequence[int], formula: Callable[..., Expr], name: str = "y"
    ) -> te.Tensor:
        """`te.compute` with a name that no other tensor has; rank 0 has one axis."""
        return te.compute(buffer_shape(shape), formula, self._unique(name))

    def table(self, array: Array) -> te.Tensor:
        """An input that holds `array`, of rank 1 or more, whenever the node runs."""
        if self.tables is None:
            raise self.node.refuse("a node must not need tables here", "it is interpreted")
        tensor = te.placeholder(array.shape, array.dtype.name, self._unique("table"))
        self.tables[tensor] = array
        return tensor

    def attends(self, found: Attended) -> None:
        """The node is an attention, which one kernel may compute."""
        if self.attentions is not None:
            self.attentions.append(found)

    def _unique(self, name: str) -> str:
        return f"{self.prefix}_{name}_{next(self._numbers)}"


Lowering = Callable[[Operation], Sequence[te.Tensor]]
"""Gives a tensor per result, in order; a result that is not asked for may be left out at the end.

Raises UnsupportedError (`Operation.node.refuse`) for what is not lowered.
"""
