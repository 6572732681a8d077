"""`LoadedKernel` and `time_kernels`: kernels in this process, and what they take by its clock."""

import ctypes
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.artifact.host_code import ALIGN
from daedal.native.call_table import CallTable, KernelCall
from daedal.native.codegen import load_objects
from daedal.tuning.kernel_code import KernelCode, KernelInput

__all__ = ["ROUNDS", "LoadedKernel", "Operands", "operand", "serve_kernels", "time_kernels"]

ROUNDS = 9
"""Times of each kernel; an odd number has a median."""
ROUND_NANOSECONDS = 1_000_000
"""Calls of a short kernel are timed together until they take about so long."""
MOST_CALLS = 10_000

Array = npt.NDArray[Any]
Clock = Callable[[], int]


class Operands:
    """Random values, which depend on their types, shapes and places alone.

    Kernels that read or write equal operands share them: where they lie in memory decides on
    conflicts in caches, which are no property of a kernel.
    """

    def __init__(self) -> None:
        self._inputs: dict[tuple[int, KernelInput], Array] = {}
        self._results: dict[tuple[str, tuple[int, ...]], Array] = {}

    def of(self, code: KernelCode) -> list[Array]:
        """The inputs, and the result, which is 0 at first."""
        for item in enumerate(code.inputs):
            if item not in self._inputs:
                self._inputs[item] = operand(*item)
        kind = code.dtype, code.shape
        if kind not in self._results:
            self._results[kind] = _aligned(np.zeros(code.shape, code.dtype))
        return [*(self._inputs[item] for item in enumerate(code.inputs)), self._results[kind]]


class LoadedKernel:
    """A kernel in this process, and its operands."""

    def __init__(self, code: KernelCode, operands: Operands | None = None) -> None:
        self._library = load_objects(code.objects, [code.symbol])
        self._arrays = arrays = (operands or Operands()).of(code)
        self._addresses = (ctypes.c_void_p * len(arrays))(*(item.ctypes.data for item in arrays))
        self._call = KernelCall(
            self._library.addresses[code.symbol],
            ctypes.addressof(self._addresses),
            code.iterations,
        )
        self._table = CallTable([self._call])
        self._count = 1

    def result(self) -> Array:
        """What one call stores."""
        self._run()
        return self._arrays[-1]

    def prepare(self, clock: Clock) -> None:
        """Choose how many calls are timed together."""
        self._run()  # reads code and operands into caches
        begin = clock()
        self._run()
        taken = max(clock() - begin, 1)
        self._count = min(max(ROUND_NANOSECONDS // taken, 1), MOST_CALLS)
        self._table = CallTable([self._call] * self._count)

    def nanoseconds(self, clock: Clock) -> int:
        """Of one call, as the mean of those that are timed together; at least 1."""
        begin = clock()
        self._run()
        return max(round((clock() - begin) / self._count), 1)

    def _run(self) -> None:
        failed = self._table.run()
        assert failed is None, "unchecked code does not fail"


def time_kernels(
    codes: Sequence[KernelCode], clock: Clock = time.perf_counter_ns, rounds: int = ROUNDS
) -> list[list[int]]:
    """(kernels, rounds): nanoseconds. All kernels run in turn, forwards and backwards."""
    operands = Operands()
    kernels = [LoadedKernel(code, operands) for code in codes]
    for kernel in kernels:
        kernel.prepare(clock)
    found: list[list[int]] = [[] for _ in kernels]
    for number in range(rounds):
        order = range(len(kernels))
        for at in order if number % 2 == 0 else reversed(order):
            found[at].append(kernels[at].nanoseconds(clock))
    return found


def serve_kernels(connection: Connection) -> None:
    """Answer messages until the other end is closed: a `KernelCode` by its result, and a list of
    them by `time_kernels`."""
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        if isinstance(message, KernelCode):
            connection.send(LoadedKernel(message).result())
        else:
            connection.send(time_kernels(message))


def operand(number: int, item: KernelInput) -> Array:
    """Random values of the operand at a place, without zeros among wide integers, which may
    divide."""
    rng = np.random.default_rng(number)
    kind = np.dtype(item.dtype)
    if kind.kind == "f":
        values = rng.normal(size=item.shape).astype(kind)
    elif kind.kind == "b":
        values = rng.integers(0, 2, item.shape).astype(kind)
    elif kind.itemsize == 1:
        limits = np.iinfo(kind)
        values = rng.integers(limits.min, limits.max + 1, item.shape).astype(kind)
    else:
        values = rng.integers(1, 100, item.shape).astype(kind)
    if item.moved is not None:
        values = item.moved.packing(item.shape).applied(values)
    return _aligned(values)


def _aligned(values: Array) -> Array:
    """A copy that begins where compiled code may rely on it."""
    block = np.zeros(values.nbytes + ALIGN, np.uint8)
    start = -block.ctypes.data % ALIGN
    found: Array = block[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    found[...] = values
    return found
