"""`@record`: a class whose scalars and arrays a kernel can read and change."""

import inspect
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

from daedal.common.errors import KernelError
from daedal.native.types import ArrayType, Kind, Scalar

__all__ = ["BOOL", "RecordField", "RecordType", "record", "record_type"]

BOOL = Scalar("bool", 1, Kind.BOOL)
"""Python's bool as an element type; annotations say ``bool``."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class RecordField:
    """A field and its first 8-byte slot; an array takes two, its address and its length."""

    name: str
    type: Scalar | ArrayType
    slot: int


@dataclass(frozen=True)
class RecordType:
    """The fields of a record in order, and the slots that they take together."""

    name: str
    fields: tuple[RecordField, ...]
    slots: int

    def field(self, name: str) -> RecordField | None:
        """The field of that name."""
        return next((item for item in self.fields if item.name == name), None)


@dataclass_transform(eq_default=False)
def record(cls: type[_T]) -> type[_T]:
    """Make a dataclass that kernels take as an argument.

    Fields are annotated ``i64``, ``f64``, ``bool`` or ``Array[...]``. Raises KernelError for
    another annotation.
    """
    fields: list[RecordField] = []
    slots = 0
    for name, annotation in inspect.get_annotations(cls, eval_str=True).items():
        kind = BOOL if annotation is bool else annotation
        wide = isinstance(kind, Scalar) and ((kind.bits == 64 and kind.signed) or kind is BOOL)
        if not wide and not isinstance(kind, ArrayType):
            raise KernelError(
                f"a record's field must be i64, f64, bool or Array[...], not "
                f"{getattr(annotation, 'name', annotation)!r} ({cls.__name__}.{name})"
            )
        fields.append(RecordField(name, kind, slots))
        slots += 2 if isinstance(kind, ArrayType) else 1
    made = dataclass(eq=False)(cls)
    made.__record_type__ = RecordType(cls.__name__, tuple(fields), slots)  # type: ignore[attr-defined]
    return made


def record_type(cls: Any) -> RecordType | None:
    """The `RecordType` of a class made by `record`, else None."""
    found = getattr(cls, "__record_type__", None)
    return found if isinstance(found, RecordType) else None
