"""Failures that a checked run detects, and their encoding in the status of machine code."""

import enum

__all__ = ["Failure", "failure_code", "read_failure"]


class Failure(enum.IntEnum):
    """Kinds of failure; 0 is none. Plain Python raises the same exceptions, or stricter ones."""

    exception: type[Exception]
    sentence: str

    def __new__(
        cls, code: int, exception: type[Exception] = Exception, sentence: str = ""
    ) -> "Failure":
        """Make the member of value `code`."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.exception = exception
        member.sentence = sentence
        return member

    INDEX = 1, IndexError, "an index must lie inside its array"
    DIVISION = 2, ZeroDivisionError, "a divisor must not be 0"
    SHIFT = 3, ValueError, "a shift amount must not be negative"
    ASSERTION = 4, AssertionError, "an assertion failed"
    STEP = 5, ValueError, "the step of range must not be 0"


_LINE_BITS = 32
_CODE_BITS = 8


def failure_code(kernel: int, line: int, failure: Failure) -> int:
    """The status of a failure: which kernel of the module, which line of its file, what."""
    return kernel << _LINE_BITS + _CODE_BITS | line << _CODE_BITS | failure


def read_failure(status: int) -> tuple[int, int, Failure]:
    """The number of the kernel, the line and the failure of a status that is not 0."""
    line = status >> _CODE_BITS & ((1 << _LINE_BITS) - 1)
    return status >> _LINE_BITS + _CODE_BITS, line, Failure(status & ((1 << _CODE_BITS) - 1))
