"""The one error tree: every mistake a user can make is a `UserError` with one clear sentence.

A message states the rule, the offender and what to do:
``depth must be a power of two, not 12 (scratchpad 'inp'); choose 8 or 16``.
Broken invariants of our own are ``assert``s, never these.
"""

__all__ = [
    "ArtifactError",
    "CapacityError",
    "DaedalError",
    "DeviceError",
    "KernelError",
    "ModelError",
    "ProgramError",
    "ScheduleError",
    "ToolError",
    "UnsupportedError",
    "UserError",
    "VariantError",
    "VerificationError",
    "first_line",
]

_MAX_REASON_LENGTH = 300


class DaedalError(Exception):
    """Root of every error that Daedal raises on purpose."""


class UserError(DaedalError):
    """A mistake in what the user gave; the command line prints it and exits with status 2."""


class VariantError(UserError):
    """A variant that cannot be built, or an unknown one."""


class ProgramError(UserError):
    """A program that cannot be encoded, decoded, assembled or placed."""


class VerificationError(ProgramError):
    """A program that breaks a rule of the machine: tokens, serial order or an unordered access."""


class ArtifactError(UserError):
    """A file that is not an artifact, is damaged, or was made for something else."""


class ModelError(UserError):
    """An ONNX model that cannot be read or compiled."""


class UnsupportedError(ModelError):
    """A valid part of a model that the accelerator cannot run; the host may.

    `tensor` is what it computes, where that is known.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor


class ScheduleError(UserError):
    """A schedule primitive was asked for something illegal."""


class KernelError(UserError):
    """A kernel that uses what its language has not, or arguments that it was not declared for."""


class ToolError(UserError):
    """An outside tool is missing or too old."""


class CapacityError(ToolError):
    """An outside tool found that a design needs more of a resource than its device has."""

    def __init__(self, message: str, resource: str, needed: int) -> None:
        super().__init__(message)
        self.resource = resource
        self.needed = needed


class DeviceError(DaedalError):
    """A device failed while it ran a valid program, or reported an error status."""


def first_line(error: Exception) -> str:
    """What another library says, fit for a sentence: one line, printable and of bounded length."""
    lines = str(error).strip().splitlines() or ["unknown reason"]
    printable = "".join(letter if letter.isprintable() else "?" for letter in lines[0])
    return printable[:_MAX_REASON_LENGTH]
