"""`compile_errors`: what code for processors and GPUs refuses, as errors of the user."""

from collections.abc import Iterator
from contextlib import contextmanager

from daedal.common.errors import ModelError, ScheduleError, TuningError

__all__ = ["compile_errors"]


@contextmanager
def compile_errors() -> Iterator[None]:
    """ModelError for formulas that nest too deeply, and TuningError for a schedule that does not
    build, which only a configuration can be."""
    try:
        yield
    except RecursionError as error:
        raise ModelError(
            "formulas of compiled code must not nest too deeply, and a node of this model has one "
            "that does; give it fewer operands"
        ) from error
    except ScheduleError as error:
        raise TuningError(
            f"a configuration must build its kernel, and one does not: {error}; tune again"
        ) from error
