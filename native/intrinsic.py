"""`@intrinsic`: a function written as LLVM IR text, with a Python function that defines it.

For what the kernel language cannot express, mainly vector instructions. The Python function is the
definition: it runs where kernels run as plain Python, and tests compare the two.
"""

from collections.abc import Callable, Mapping
from typing import Any

from daedal.common.errors import KernelError
from daedal.native.record import RecordType
from daedal.native.signature import Signature, signature_of, where
from daedal.native.specialize import with_names

__all__ = ["Intrinsic", "intrinsic"]

TextOf = Callable[[Mapping[str, Any]], str]

_MARK = "@SELF"


class Intrinsic:
    """A function that kernels call; from Python it is called through `plain`.

    Attributes
    ----------
    plain
        The Python function.
    """

    def __init__(self, function: Callable[..., Any], text: TextOf) -> None:
        self.plain = function
        self.signature: Signature = signature_of(function)
        self._text = text
        if any(isinstance(item.type, RecordType) for item in self.signature.parameters):
            raise KernelError(
                f"an intrinsic takes scalars and arrays, not records ({where(function)}, "
                f"{function.__name__})"
            )

    @property
    def symbol(self) -> str:
        """Its name in LLVM's text."""
        return f'@"{self.plain.__module__}.{self.plain.__qualname__}"'

    def definition(self) -> str:
        """LLVM's text, with the symbol in its place."""
        return self._text(self.plain.__globals__).replace(_MARK, self.symbol)

    def specialized(self, names: Mapping[str, Any]) -> "Intrinsic":
        """The same with other meanings of module-level names, see `Kernel.specialized`."""
        return Intrinsic(with_names(self.plain, names), self._text)

    def __call__(self, *arguments: Any) -> Any:
        """Run the Python function."""
        return self.plain(*arguments)


def intrinsic(text: TextOf) -> Callable[[Callable[..., Any]], Intrinsic]:
    """Make an `Intrinsic` of an annotated Python function.

    `text` gives LLVM's text from the module-level names that the function sees: a ``define
    internal`` of ``@SELF``, and declarations of what it calls, a line each.
    Integers come as i64, floats as double, bools as i1, an array as a ptr and an i64 (its length).
    """
    return lambda function: Intrinsic(function, text)
