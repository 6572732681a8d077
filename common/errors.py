"""The error hierarchy: every user mistake is a `UserError` with a message of one clear sentence.

The message states the rule, the offending value and what to do:
``depth must be a power of two, not 12 (scratchpad 'inp'); choose 8 or 16``.
Violations of internal invariants are ``assert``s, never these.
"""

__all__ = [
    "ArtifactError",
    "CapacityError",
    "DaedalError",
    "DeviceError",
    "KernelError",
    "ModelError",
    "ModelWarning",
    "NotQuantizedError",
    "ProgramError",
    "ScheduleError",
    "ToolError",
    "TuningError",
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


class NotQuantizedError(ModelError):
    """A float model where a quantized one is needed."""


class ModelWarning(UserWarning):
    """A model that states something wrong, which does not keep it from being compiled."""


class UnsupportedError(ModelError):
    """A valid part of a model that the accelerator cannot run; the host may.

    `tensor` is the name of the tensor it computes, if known.
    """

    def __init__(self, message: str, tensor: str = "") -> None:
        super().__init__(message)
        self.tensor = tensor


class ScheduleError(UserError):
    """A schedule primitive was asked for something illegal."""


class TuningError(UserError):
    """A tuning database or a record that cannot be used, or a search with impossible settings."""


class ExploreError(UserError):
    """A search for variants with impossible settings, or a result folder that cannot be used."""


class KernelError(UserError):
    """A kernel that uses what its language lacks, or arguments of undeclared types."""


class ToolError(UserError):
    """An external tool is missing or too old."""


class CapacityError(ToolError):
    """An external tool found that a design needs more of a resource than its device has."""

    def __init__(self, message: str, resource: str, needed: int) -> None:
        super().__init__(message)
        self.resource = resource
        self.needed = needed


class DeviceError(DaedalError):
    """A device failed while it ran a valid program, or reported an error status; the command line
    prints it and exits with status 2."""


def first_line(error: Exception) -> str:
    """Another library's error message as part of a sentence: one short, printable line."""
    lines = str(error).strip().splitlines() or ["unknown reason"]
    printable = "".join(letter if letter.isprintable() else "?" for letter in lines[0])
    return printable[:_MAX_REASON_LENGTH]
