"""`HostProgram`: a `HostCode` in this process: its memory, its functions, and runs."""

import ctypes
import itertools
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from daedal.artifact.host_code import CodeCall, HostCode, InterpretedNode, Join, Step
from daedal.common.errors import ArtifactError, ModelError, first_line
from daedal.native.call_clock import time_calls
from daedal.native.call_table import CallTable, KernelCall
from daedal.native.codegen import LoadedLibrary, load_objects
from daedal.native.levels import level_to_run
from daedal.native.row_copies import RowCopies
from daedal.native.thread_team import ThreadTeam
from daedal.runtime.host import Arrays
from daedal.runtime.outside_tensors import outside_places
from daedal.runtime.program_memory import InterpretedStep, given_inputs
from daedal.runtime.thread_choice import ThreadChoice

__all__ = ["HostProgram", "code_to_run", "num_threads"]

Array = npt.NDArray[Any]

LEAST_WORK = 400_000
"""Nanoseconds of work, of calls that can be split, from which on `ThreadChoice` tries threads. On
two cores of an AMD Zen 4, programs of 0.5 ms took 0.7 times as long as on one when run again and
again, and 0.85 to 1.0 times after 20 ms without work; those of 0.2 ms took 0.7 to 0.8 and 1.05 to
1.15 times: processors that slept wake late."""
PARALLEL_WORK = 200_000
"""Nanoseconds of such work for each thread: the others begin 10 to 50 microseconds late."""
MOST_THREADS = 16
"""Of one program: with more, waiting for each other takes longer than small calls."""
SPLIT_WORK = 5_000
"""Nanoseconds of a call that several threads share: waiting for each other takes one or two."""
BYTES_PER_NANOSECOND = 8
"""That a thread copies."""
PIECES = 16
"""Of a copy of bytes that lie side by side."""

_TOGETHER = threading.Lock()
"""Held by the program that threads run together: they wait for each other, so none may be missing.
Other programs run alone meanwhile."""


_TEAM = ThreadTeam()


def _after_fork() -> None:
    """A fork copies no threads."""
    global _TOGETHER, _TEAM
    _TOGETHER, _TEAM = threading.Lock(), ThreadTeam()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@lru_cache(maxsize=1)
def _count() -> int:
    """How many threads run a program."""
    return min(_processors(), MOST_THREADS)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def code_to_run(codes: Sequence[HostCode]) -> HostCode | None:
    """The code with the best level that this processor has, or None where it has none of them."""
    levels = {level: code for code in codes for level in code.objects}
    level = level_to_run(levels)
    return None if level is None else levels[level]


class HostProgram:
    """Compiled code that is ready to run. One run at a time: runs share the memory.

    Parameters
    ----------
    threads : how many may run it together; None: as many as there are processors.

    Attributes
    ----------
    level : of the processor, that the code which runs is for.

    Raises ArtifactError where the code is for no level of this processor, or cannot be linked.
    """

    def __init__(self, code: HostCode, threads: int | None = None) -> None:
        self.threads = _count() if threads is None else min(threads, _count())
        level = level_to_run(code.objects)
        if level is None:
            raise ArtifactError(
                "an artifact must hold code for this processor, and it has that of "
                f"{', '.join(code.objects) or 'none'}; compile the model here"
            )
        self.code, self.level = code, level
        try:
            block = np.zeros(code.memory_bytes + 64, np.uint8)
        except MemoryError as error:
            raise ArtifactError(
                f"memory must hold the tensors of compiled code, {code.memory_bytes} bytes, and it "
                "cannot; use smaller shapes"
            ) from error
        start = -block.ctypes.data % 64
        self._memory = block[start : start + code.memory_bytes]
        code.put_constants(self._memory)
        symbols = list(dict.fromkeys(call.symbol for call in code.calls))
        self._library = _loaded(code.objects[level], symbols)
        calls: dict[int, list[_Call | _Copy]] = {}
        self._steps = _ready(code.steps, self, calls)
        self._ends = {
            name: self.array(code.names[name])
            for name in (*code.inputs, *code.outputs)
            if name in code.names
        }
        self._places = {
            name: [
                (call.addresses, argument)
                for step, argument in places
                for call in calls[step]
                if isinstance(call, _Call)
            ]
            for name, places in outside_places(code).items()
        }

    def array(self, number: int) -> npt.NDArray[Any]:
        """The tensor in a buffer, in place."""
        buffer = self.code.buffers[number]
        dtype = np.dtype(buffer.dtype)
        count = int(np.prod(buffer.shape, dtype=np.int64))
        own = self._memory[buffer.offset : buffer.offset + count * dtype.itemsize]
        return own.view(dtype).reshape(buffer.shape)

    def fetch(self, number: int) -> Array:
        """The same, for `InterpretedStep`."""
        return self.array(number)

    def store(self, number: int, value: Array) -> None:
        """Put a tensor into a buffer, converted to its type."""
        self.array(number)[...] = value

    def own(self, result: Any) -> Any:
        """`result` outside this program's memory, which later steps and runs write. The evaluator
        returns views of its operands, also in sequences."""
        if isinstance(result, list):
            return [self.own(item) for item in result]
        is_view = isinstance(result, np.ndarray) and np.may_share_memory(result, self._memory)
        return result.copy() if is_view else result

    def function(self, symbol: str) -> int:
        """The address of a compiled function."""
        return self._library.addresses[symbol]

    def run(self, values: Mapping[str, npt.NDArray[Any]]) -> Arrays:
        """Outputs by name. Raises ModelError for inputs that do not fit."""
        code = self.code
        placed, found = given_inputs(code, values)
        for name, value in placed.items():
            placed[name] = self._given(name, value, self._ends[name])  # calls have its address
        results = {name: self._result(name) for name in code.outputs if name in code.names}
        for step in self._steps:
            step.run(found)
        return {
            name: self._taken(name, results[name]) if name in results else found[name]
            for name in code.outputs
        }

    def time_steps(self, values: Mapping[str, npt.NDArray[Any]]) -> dict[int, int]:
        """Nanoseconds that this thread takes in one run, by the numbers of the code's steps. Raises
        as `run`."""
        placed, found = given_inputs(self.code, values)
        for name, value in placed.items():
            placed[name] = self._given(name, value, self._ends[name])
        for name in self.code.outputs:
            if name in self._places:
                self._address(name, self._ends[name])
        times: dict[int, int] = {}
        for step in self._steps:
            times |= step.time(found)
        return times

    def _given(self, name: str, value: Array, own: Array) -> Array:
        """Where an input is: `value`, or its copy in `own`, this program's memory."""
        if name not in self._places or not (value.flags.c_contiguous and value.flags.aligned):
            own[...] = value
            value = own
        self._address(name, value)
        return value

    def _result(self, name: str) -> Array:
        """Where an output will be: an array of its own, or this program's memory."""
        own = self._ends[name]
        if name not in self._places:
            return own
        value = np.empty_like(own)
        self._address(name, value)
        return value

    def _taken(self, name: str, result: Array) -> Array:
        """An output outside this program's memory."""
        return result.copy() if result is self._ends[name] else result

    def _address(self, name: str, value: Array) -> None:
        if name in self._places:
            address = _address_of(value)
            for addresses, argument in self._places[name]:
                addresses[argument] = address


def _address_of(array: Any) -> int:
    """Where a contiguous array lies. numpy's own answer takes three times as long."""
    if array.flags.writeable:
        try:
            return ctypes.addressof(ctypes.c_char.from_buffer(array))
        except ValueError:  # it is empty, or no buffer of Python's has its type
            pass
    return int(array.ctypes.data)


class _Ready(Protocol):
    """Steps that are ready to run."""

    def run(self, values: Arrays, /) -> None:
        """Run them; `values` has what is not in the program's memory."""

    def time(self, values: Arrays, /) -> dict[int, int]:
        """Run them by this thread alone; the nanoseconds of each, by its number."""


def _ready(
    steps: Sequence[Step], program: HostProgram, calls: dict[int, list["_Call | _Copy"]]
) -> list[_Ready]:
    """What runs the steps; calls that no other step parts run together. Those of each step are
    added to `calls`, by its number."""
    found: list[_Ready] = []
    for runs, group in itertools.groupby(
        enumerate(steps), lambda item: not isinstance(item[1], InterpretedNode)
    ):
        together = list[tuple[int, _Call | _Copy]]()
        for number, step in group:
            if isinstance(step, InterpretedNode):
                found.append(_Interpreted(number, InterpretedStep(step, program.code, program)))
                continue
            calls[number] = _calls(step, program)
            together += ((number, call) for call in calls[number])
        if runs and together:
            found.append(_Calls(together, program.threads))
    return found


def _loaded(objects: Sequence[bytes], symbols: Sequence[str]) -> LoadedLibrary:
    try:
        return load_objects(objects, symbols)
    except RuntimeError as error:
        raise ArtifactError(
            "machine code of an artifact must link with this process, and it does not: "
            f"{first_line(error)}; compile the model here"
        ) from error


class _Call:
    """A call of a function, and the memory of its arguments."""

    def __init__(self, call: CodeCall, program: HostProgram) -> None:
        self.addresses = (ctypes.c_void_p * len(call.buffers))(
            *(program.array(number).ctypes.data for number in call.buffers)
        )
        splits = call.work >= SPLIT_WORK and call.iterations > 1
        self.kernel = KernelCall(
            program.function(call.symbol),
            ctypes.addressof(self.addresses),
            call.iterations,
            splits,
            call.rounds,
        )
        self.symbol = call.symbol
        self.work = call.work if splits else 0


class _Copy:
    """A copy of a tensor into its part of a joined one, which begins `first` bytes in a row."""

    symbol = "a copy"

    def __init__(self, part: Array, result: Array, axis: int, first: int) -> None:
        rows, row_bytes = math.prod(part.shape[:axis]), math.prod(part.shape[axis:]) * part.itemsize
        step = math.prod(result.shape[axis:]) * result.itemsize
        if rows == 1 and row_bytes % PIECES == 0:  # what lies side by side has no rows
            rows, row_bytes, step = PIECES, row_bytes // PIECES, row_bytes // PIECES
        work = part.nbytes // BYTES_PER_NANOSECOND
        splits = work >= SPLIT_WORK and rows > 1
        self._copies = RowCopies(
            part.ctypes.data, result.ctypes.data + first, rows, row_bytes, step, splits
        )
        self.kernel = self._copies.kernel
        self.work = work if splits else 0


def _calls(step: Step, program: HostProgram) -> list[_Call | _Copy]:
    """The calls of a step that no node is interpreted for."""
    if isinstance(step, CodeCall):
        return [_Call(step, program)]
    assert isinstance(step, Join)
    *parts, result = (program.array(number) for number in step.buffers)
    copies, first = list[_Call | _Copy](), 0
    for part in parts:
        if part.size:
            copies.append(_Copy(part, result, step.axis, first))
        first += math.prod(part.shape[step.axis :]) * part.itemsize
    return copies


def num_threads(work: int, most: int) -> int:
    """How many threads run a program with so many nanoseconds of work that can be split."""
    return min(most, 1 + work // PARALLEL_WORK) if work >= LEAST_WORK else 1


class _Interpreted:
    """A node that is interpreted."""

    def __init__(self, number: int, step: InterpretedStep) -> None:
        self._number, self._step = number, step

    def run(self, values: Arrays) -> None:
        self._step.run(values)

    def time(self, values: Arrays) -> dict[int, int]:
        began = time.perf_counter_ns()
        self._step.run(values)
        return {self._number: time.perf_counter_ns() - began}


class _Calls:
    """Calls, each with the number of its step, one after the other, by one thread or by several
    together."""

    def __init__(self, calls: Sequence[tuple[int, _Call | _Copy]], most: int) -> None:
        self._numbers = [number for number, _ in calls]
        self._calls = [call for _, call in calls]
        kernels = [call.kernel for call in self._calls]
        self._alone = CallTable(kernels)
        threads = num_threads(sum(call.work for call in self._calls), most)
        self._together = CallTable(kernels, threads) if threads > 1 else None
        self._choice = ThreadChoice()

    def time(self, _values: Arrays) -> dict[int, int]:
        found = time_calls([call.kernel for call in self._calls])
        if isinstance(found, int):
            raise _left(self._calls[found].symbol)
        times: dict[int, int] = {}
        for number, nanoseconds in zip(self._numbers, found, strict=True):
            times[number] = times.get(number, 0) + nanoseconds
        return times

    def run(self, _values: Arrays) -> None:
        failed = self._alone.run() if self._together is None else self._run(self._together)
        if failed is not None:
            raise _left(self._calls[failed].symbol)

    def _run(self, together: CallTable) -> int | None:
        """One run, by one thread or by several, whichever was faster."""
        several = self._choice.together()
        if several and not _TOGETHER.acquire(blocking=False):
            return self._alone.run()
        began = time.perf_counter()
        try:
            return together.run(_TEAM) if several else self._alone.run()
        finally:
            self._choice.took(several, time.perf_counter() - began)
            if several:
                _TOGETHER.release()


def _left(symbol: str) -> ModelError:
    """The error for a call whose status says so."""
    return ModelError(
        f"compiled code must stay inside its tensors, and {symbol} did not; report this defect"
    )
