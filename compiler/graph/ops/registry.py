"""The operator registry: signature, type inference and numpy evaluation of every graph operator.

The evaluations define the graph language (`interpreter` runs them).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, cast

import numpy.typing as npt

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.graph.types import TensorType
from daedal.compiler.targets.names import CPU

if TYPE_CHECKING:
    from daedal.compiler.graph.ops.onnx_form import WriteOnnx

__all__ = [
    "SAME_ORDER",
    "OpDef",
    "define",
    "elementwise_ops",
    "get_op",
    "ints",
    "list_ops",
    "number",
    "register",
    "require",
    "require_float",
    "runs_on",
    "text",
    "whole",
]

Array = npt.NDArray[Any]
Attrs = Mapping[str, Any]
Arrays = Sequence[Array]
Types = Sequence[TensorType]
Infer = Callable[[Types, Attrs], TensorType]
P = ParamSpec("P")
Evaluate = Callable[[Arrays, Types, Attrs], Array]

SAME_ORDER = ("flip_sign", "pack", "pack_pixels", "pack_stream", "reshape", "unpack")
"""Operators that keep the order of the elements. They may change shape, layout and sign. A
`reshape_view` keeps the order of the bytes, which is another one in blocks of channels."""

_KINDS: dict[str, type] = {
    "bytes": bytes,
    "float": float,
    "int": int,
    "ints": tuple,
    "str": str,
}


@dataclass(frozen=True)
class OpDef:
    """Definition of one operator.

    Parameters
    ----------
    name : the name nodes carry.
    operands : names of the operands; the last `num_optional` of them may be left out.
    variadic : whether the first operand may be repeated.
    attrs : attribute name to kind, "bytes", "float", "int", "ints" or "str"; all are required.
    infer : result type from operand types and attributes; raises ModelError.
    evaluate : result array from operand arrays (physical), their types and attributes; its
        docstring says what the operator computes.
    targets : names of the targets of the kit that run it, the preferred one first.
    onnx : writes a node as ONNX; None: nothing in ONNX means the same.
    elementwise : whether reals at the same places of the operands give each real of the result.
    is_view : whether it takes no instruction because the result shares the operands' memory.
    """

    name: str
    operands: tuple[str, ...]
    attrs: Mapping[str, str]
    infer: Infer
    evaluate: Evaluate
    num_optional: int = 0
    variadic: bool = False
    targets: tuple[str, ...] = (CPU,)
    elementwise: bool = False
    is_view: bool = False
    onnx: "WriteOnnx | None" = None

    def check(self, operands: Types, attrs: Attrs) -> None:
        """Assert that a node has the operands and attributes of this operator."""
        most = len(self.operands)
        assert most - self.num_optional <= len(operands) and (
            self.variadic or len(operands) <= most
        ), f"{self.name} takes {most} operands, not {len(operands)}"
        assert attrs.keys() == self.attrs.keys(), (
            f"{self.name} has attributes {sorted(self.attrs)}, not {sorted(attrs)}"
        )
        for name, kind in self.attrs.items():
            value: Any = attrs[name]
            assert isinstance(value, _KINDS[kind]) and not isinstance(value, bool), (
                f"{self.name}.{name} must be {kind}, not {value!r}"
            )
            if isinstance(value, tuple):
                assert all(type(item) is int for item in value), f"{self.name}.{name}: {value!r}"


_REGISTRY: dict[str, OpDef] = {}


def register(definition: OpDef) -> OpDef:
    """Add an operator; names must be unique."""
    assert definition.name not in _REGISTRY, f"operator {definition.name} is defined twice"
    _REGISTRY[definition.name] = definition
    return definition


def _registering(make: Callable[P, OpDef]) -> Callable[P, OpDef]:
    return lambda *args, **kwargs: register(make(*args, **kwargs))


define = _registering(OpDef)
"""Makes an `OpDef` and registers it."""


def get_op(name: str) -> OpDef:
    """The definition of operator `name`."""
    return _REGISTRY[name]


def runs_on(name: str, target: str) -> bool:
    """Whether the target of the kit called `target` runs operator `name`."""
    return target in get_op(name).targets


def list_ops() -> tuple[OpDef, ...]:
    """Every operator, by name."""
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY))


def elementwise_ops(num_operands: int | None = None) -> frozenset[str]:
    """The elementwise operators of reals, or those with so many operands."""
    return frozenset(
        definition.name
        for definition in list_ops()
        if definition.elementwise and num_operands in (None, len(definition.operands))
    )


def require(condition: bool, message: str) -> None:
    """Raise ModelError with `message` unless the condition holds."""
    if not condition:
        raise ModelError(message)


def require_float(operands: Sequence[TensorType]) -> None:
    """Raise UnsupportedError unless every operand is float32."""
    for operand in operands:
        if operand.dtype != "float32":
            raise UnsupportedError(
                f"operands must be float32, not {operand}; insert a DequantizeLinear"
            )


def ints(attrs: Attrs, name: str) -> tuple[int, ...]:
    """An attribute of kind "ints"."""
    return cast(tuple[int, ...], attrs[name])


def whole(attrs: Attrs, name: str) -> int:
    """An attribute of kind "int"."""
    return cast(int, attrs[name])


def text(attrs: Attrs, name: str) -> str:
    """An attribute of kind "str"."""
    return cast(str, attrs[name])


def number(attrs: Attrs, name: str) -> float:
    """An attribute of kind "float"."""
    return float(attrs[name])
