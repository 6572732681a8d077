"""`with_bodies`: a kernel's text with the bodies of what it calls, for one back end of LLVM.

A back end that meets an intrinsic that it cannot select ends the process, so every name that is
called is compared with a list first.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.gpu.functions import function_definitions
from daedal.compiler.codegen.llvm.function import declarations

__all__ = ["BackEnd", "called_names", "with_bodies"]

_DEFINED = re.compile(r"define [^@]*@([\w.]+)\(")
_CALLED = re.compile(r"call [^@\n]*@([\w.]+)\(")
_DECLARED = re.compile(r"^declare [^\n]*\n(?: +[^\n]*\n)*", re.MULTILINE)


@dataclass(frozen=True)
class BackEnd:
    """What a back end of LLVM has.

    Attributes
    ----------
    triple : its name.
    operations : bodies by name.
    selected : intrinsics for all types, without ``llvm.`` and the suffix of the type.
    own : whole names of other functions that it has.
    lacking : whole names of intrinsics of `selected` that it does not have for a type.
    """

    triple: str
    operations: Mapping[str, str]
    selected: Collection[str]
    own: Collection[str]
    lacking: Collection[str] = ()

    def has(self, name: str) -> bool:
        """Whether it has a function."""
        plain = re.sub(r"(\.(v\d+)?[fi]\d+)+$", "", name).removeprefix("llvm.")
        is_selected = name.startswith("llvm.") and plain in self.selected
        return name in self.own or (is_selected and name not in self.lacking)


def called_names(text: str) -> list[str]:
    """Functions that are called, each once."""
    return list(dict.fromkeys(_CALLED.findall(text)))


def with_bodies(body: str, entry: str, back_end: BackEnd) -> str:
    """A module with the body of a kernel, its entry, and what both call.

    Raises UnsupportedError for a function that the back end does not have.
    """
    body = _DECLARED.sub("", body)
    called = sorted(called_names(body))
    parts = [back_end.operations[name] for name in called if name in back_end.operations]
    parts += function_definitions([name for name in called if name not in back_end.operations])
    text = "".join((*parts, body, entry))
    defined = set(_DEFINED.findall(text))
    for name in called_names(text):
        if name not in defined and not back_end.has(name):
            raise UnsupportedError(
                f"kernels for {back_end.triple} must call functions that its code generator has, "
                f"not {name!r}; leave out this architecture"
            )
    missing = [
        line
        for line in declarations(text).splitlines(keepends=True)
        if not any(f"@{name}(" in line for name in defined)
    ]
    return "".join(missing) + text
