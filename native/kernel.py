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
- arrays: ``Array[T]``, T any of these but bool: 1-D C-contiguous numpy arrays of that dtype,
  changed in place. They may overlap. No size is passed beside them: ``len(a)``;
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

Everything else is refused by `KernelError`, with file, line and construct.

*Beyond Python*: nothing traps. Unless run ``checked``, an index is not checked (and a negative one
does not count from the end), ``x // 0`` is x and ``x % 0`` is 0, a shift by 64 or more (or by a
negative amount) gives 0 (``>>``: the sign), a float out of range becomes the nearest integer, and
``x / 0.0`` is infinite or not a number. Plain Python and ``checked`` raise instead.

Cost: about two microseconds per call, and a fraction of one per record field. Machine code is kept
on disk, see `daedal.native.cache`; the key is what the kernel and all it calls consist of.
"""
