"""ONNX's Loop for the reference evaluator, with a bound on the iterations of one run.

A Loop may never end, and a model is untrusted. All Loops of one run share the bound, nested ones
included.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx.reference.ops.op_loop import Loop as _Loop

__all__ = ["MAX_ITERATIONS", "Loop", "bounded_run"]

MAX_ITERATIONS = 1_000_000

_run = threading.local()


@contextlib.contextmanager
def bounded_run() -> Iterator[None]:
    """Allow `MAX_ITERATIONS` iterations of Loops until the end of the block."""
    _run.left = MAX_ITERATIONS
    try:
        yield
    finally:
        _run.left = 0


class Loop(_Loop):
    """Raises RuntimeError beyond the bound; pass it as `new_ops` to the evaluator.

    Source: ONNX, Loop-21; the evaluator's own stacks results of rank 0 and 2 into other shapes.
    """

    op_domain = ""

    def _run(
        self, M: Any, cond: Any, *carried: Any, context: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        body: Any = getattr(self, "body")  # noqa: B009 - the evaluator sets it by name
        count = len(body.input_names) - 2
        values = [*carried[:count], *[None] * (count - len(carried))]
        stacked: list[list[Any]] = [[] for _ in body.output_names[1 + count :]]
        number = 0
        going_on = cond is None or bool(cond)
        while going_on and (M is None or number < int(M)):
            _run.left = getattr(_run, "left", 0) - 1
            if _run.left < 0:
                raise RuntimeError(
                    f"Loops of one run must end within {MAX_ITERATIONS:,} iterations"
                )
            feeds = {**(context or {}), **dict(zip(body.input_names[2:], values, strict=True))}
            feeds[body.input_names[0]] = np.array(number, np.int64)
            feeds[body.input_names[1]] = np.array(True)
            condition, *results = body.run(None, feeds, attributes=options.get("attributes"))
            going_on = bool(condition)
            values = list(results[:count])
            for kept, result in zip(stacked, results[count:], strict=True):
                kept.append(result)
            number += 1
        return (*values, *(np.stack(kept) if kept else np.empty((0,)) for kept in stacked))
