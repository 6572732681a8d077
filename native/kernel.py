"""`@kernel`: a function of a small part of Python, compiled by LLVM at its first call.

The same source is ordinary Python: ``f(...)`` runs machine code, ``f.plain(...)`` runs the Python
function (slowly, for debugging, with a debugger's breakpoints), ``f.checked(...)`` runs machine
code that checks every index, divisor and ``assert``. A test runs all three and compares.

The language
------------
*Functions* are defined at module level, take annotated positional parameters and have an annotated
result: ``i64``, ``f64``, ``bool`` or ``None``. Parameters are

- scalars: ``i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 bool``; an integer is converted to the declared
  width when it comes in;
- arrays: ``Array[T]``, T any of these but bool: 1-D C-contiguous writable numpy arrays of that
  dtype, changed in place. They may overlap. No size is passed beside them: ``len(a)``;
- records: classes decorated with ``@record`` whose fields are ``i64``, ``f64``, ``bool`` or arrays.
  Scalar fields are copied in at the call and copied back on return; nested calls share them. One
  record cannot be passed twice in one call. ``s.cycle += 1`` and ``s.busy[u] += 1`` both work; an
  array field cannot be bound to another array inside a kernel.

*Values*: there are 64-bit integers (everything integral is one, whatever array it came from),
64-bit floats and bools. Integers wrap at 64 bits, where Python's grow: write ``i64(x)``, ``i32(x)``
or ``u8(x)`` where wrapping is meant, and plain Python wraps as well. u64 elements are read as the
signed integer of the same bits, in plain Python too. What is stored into an array keeps the low
bits. A local variable has one type, that of the values assigned to it; bool widens to integer; an
integer never becomes a float unless ``f64(x)`` says so. Locals are function-wide as in Python, and
0 until assigned.

*Expressions*: integer and float literals; ``+ - *``; ``/`` (float); ``// %`` on integers, rounding
down as Python; ``<< >> & | ^ ~`` on integers; comparisons, chained too; ``and or not`` with short
circuit; ``a if c else b``; ``min max abs`` of scalars; ``len(array)``; ``a[i]``; ``s.field``;
``s.array[i]``; casts ``i8(x) ... f64(x) int(x) float(x) bool(x)``; calls of kernels and intrinsics;
names of module-level integers, floats and bools and dotted names of such (members of an IntEnum,
attributes of a module or class): constants, fixed when the kernel is compiled.

*Statements*: assignment (tuples too: ``a, b = b, a``; annotated too), augmented assignment,
``if``/``elif``/``else``, ``while``, ``for i in range(...)``, ``break``, ``continue``, ``return``,
``pass``, ``assert`` (checked runs and plain Python only), docstrings, and calls for their effect.
A local may be bound to an array: ``row = s.rows``.

Everything else is refused by `KernelError`, with file, line and construct; so is a function whose
file has changed since it was imported. (pytest rewrites ``assert`` in modules named test_*: kernels
of tests that use it belong into other files.)

*Beyond Python*: nothing traps. Unless run ``checked``, an index is not checked (and a negative one
does not count from the end), ``x // 0`` is x and ``x % 0`` is 0, a shift by 64 or more (or by a
negative amount) gives 0 (``>>``: the sign), a float out of range becomes the nearest integer, and
``x / 0.0`` is infinite or not a number. Plain Python and ``checked`` raise instead.

Cost: some three microseconds per call, a fraction of one per array or record field. Code is kept
on disk, see `daedal.native.cache`; the key is what the kernel and all it calls consist of.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from daedal.common.errors import KernelError
from daedal.native.cache import ObjectCache
from daedal.native.call import MachineCall
from daedal.native.codegen import assembly_text, compile_text, load_object
from daedal.native.cpu import Cpu, host_cpu
from daedal.native.intrinsic import Intrinsic
from daedal.native.module_text import ENTRY, module_text
from daedal.native.plain import plain_call
from daedal.native.scope import reachable, sources_text
from daedal.native.signature import Signature, signature_of, where
from daedal.native.specialize import with_names

__all__ = ["Kernel", "kernel"]


class Kernel:
    """A function in two forms, Python and machine code; made by `kernel`.

    Attributes
    ----------
    function
        The Python function as written; `plain` runs it on numpy arrays with the right meaning.
    without_features
        Features of this processor that the machine code must not use, by LLVM's names.
    """

    def __init__(
        self, function: Callable[..., Any], without_features: Collection[str] = ()
    ) -> None:
        place = f"{where(function)}, {function.__name__}"
        if function.__closure__ or "<locals>" in function.__qualname__:
            raise KernelError(f"a kernel must be defined at module level ({place})")
        functools.update_wrapper(self, function)
        self.function = function
        self.without_features = frozenset(without_features)
        self._calls: dict[bool, MachineCall] = {}
        self._lock = threading.Lock()

    @functools.cached_property
    def signature(self) -> Signature:
        """Parameters and result."""
        return signature_of(self.function)

    def __call__(self, *arguments: Any) -> Any:
        """Run machine code, compiling it first if it is not in the cache."""
        return self._call(checked=False)(*arguments)

    def checked(self, *arguments: Any) -> Any:
        """Run machine code that checks indices, divisors, shift amounts and assertions.

        Raises IndexError, ZeroDivisionError, ValueError or AssertionError, naming file and line;
        arrays and records keep what was written before.
        """
        return self._call(checked=True)(*arguments)

    def plain(self, *arguments: Any) -> Any:
        """Run the Python function, and every kernel that it calls, as Python."""
        return plain_call(self, arguments)

    def compile(self, cache: ObjectCache | None = None, *, checked: bool = False) -> None:
        """Make it ready to run, as the first call does. Raises KernelError as written above."""
        self._calls[checked] = self._made(cache or ObjectCache(), checked)

    def specialized(
        self, names: Mapping[str, Any], without_features: Collection[str] = ()
    ) -> "Kernel":
        """A kernel of the same source in which some module-level names mean something else.

        So one source serves machines of all sizes, each with its sizes as constants. The names
        mean the same in every kernel and intrinsic that it calls. `without_features` shows what
        older processors do.
        """
        made = _specialized(self, names, {})
        made.without_features = frozenset(without_features)
        return made

    def llvm(self, *, checked: bool = False) -> str:
        """LLVM's text before optimization."""
        return module_text(self, checked=checked)

    def assembly(self, *, checked: bool = False, cpu: Cpu | None = None) -> str:
        """What this processor runs, or `cpu`, as assembler text."""
        return assembly_text(self.llvm(checked=checked), cpu or self._cpu)

    @property
    def _cpu(self) -> Cpu:
        return host_cpu().without(self.without_features)

    def _call(self, *, checked: bool) -> MachineCall:
        call = self._calls.get(checked)
        if call is None:
            with self._lock:
                if checked not in self._calls:
                    self.compile(checked=checked)
                call = self._calls[checked]
        return call

    def _made(self, cache: ObjectCache, checked: bool) -> MachineCall:
        sources = sources_text(self, checked=checked)
        if self.without_features:
            sources = f"{sources}\nfor {self._cpu.feature_text}"
        data = cache.get(
            sources, lambda: compile_text(module_text(self, checked=checked), self._cpu)
        )
        return MachineCall(load_object(data, ENTRY), self, reachable(self)[0])


def _specialized(item: Kernel, names: Mapping[str, Any], known: dict[int, Kernel]) -> Kernel:
    made = Kernel(with_names(item.function, names))
    known[id(item)] = made
    seen = made.function.__globals__
    for name in item.function.__code__.co_names:
        value = seen.get(name)
        if name in names:
            continue
        if isinstance(value, Kernel):
            seen[name] = known.get(id(value)) or _specialized(value, names, known)
        elif isinstance(value, Intrinsic):
            seen[name] = value.specialized(names)
    return made


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a `Kernel` of a module-level function, see above for what it may be made of.

    Raises KernelError where it is no such function; what its body uses is checked when compiled.
    """
    if not inspect.isfunction(function):
        raise KernelError(f"a kernel must be a function, not {type(function).__name__}")
    return Kernel(function)
