"""Mistakes in tensor expressions and in the loop IR, as sentences a user can act on."""

from daedal.common.errors import UserError

__all__ = ["ExecutionError", "ExpressionError", "InvalidIRError", "ParseError"]


class ExpressionError(UserError):
    """An invalid expression, tensor or block: wrong dtype, shape or form."""


class InvalidIRError(UserError):
    """A function that breaks a rule of the loop IR (see `daedal.compiler.tir.verify`)."""


class ExecutionError(UserError):
    """The interpreter found an access outside a buffer or a read of an element never written."""


class ParseError(UserError):
    """Text that is no function of the loop IR (see `daedal.compiler.tir.parser`)."""
