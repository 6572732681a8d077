"""What the kernel language has not is refused, with file, line and construct."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from daedal.common.errors import KernelError
from daedal.native.cache import ObjectCache
from daedal.native.kernel import Kernel, kernel
from daedal.native.record import record
from daedal.native.types import Array, f64, i32, i64

TABLE = [1, 2, 3]
WIDE = 1 << 70


@record
class Counter:
    """One scalar, one array."""

    count: i64
    rows: Array[i64]


@kernel
def power(a: i64) -> i64:
    return a**2  # type: ignore[no-any-return]


@kernel
def lists(a: i64) -> i64:
    return [a][0]


@kernel
def strings(a: i64) -> i64:
    a = "text"  # type: ignore[assignment]
    return a


@kernel
def unknown(a: i64) -> i64:
    return a + nowhere  # type: ignore[name-defined] # noqa: F821


@kernel
def wide(a: i64) -> i64:
    return a & WIDE


@kernel
def table(a: i64) -> i64:
    return TABLE[a]


@kernel
def raises(a: i64) -> None:
    raise ValueError


@kernel
def two_types(a: i64) -> f64:
    x = a
    x = 1.5  # type: ignore[assignment]
    return x


@kernel
def mixed(a: i64, b: f64) -> i64:
    return a if b > 0 else b  # type: ignore[return-value]


@kernel
def float_index(a: Array[i64], x: f64) -> i64:
    return a[x]


@kernel
def float_shift(x: f64) -> f64:
    return x << 1  # type: ignore[operator,no-any-return]


@kernel
def slices(a: Array[i64]) -> i64:
    return len(a[1:])


@kernel
def falls_off(a: i64) -> i64:  # type: ignore[return]
    if a > 3:
        return a


@kernel
def for_else(a: i64) -> i64:
    for _ in range(a):
        pass
    else:
        a = 3
    return a


@kernel
def over_array(a: Array[i64]) -> i64:
    t = 0
    for x in a:
        t += x
    return t


@kernel
def calls_print(a: i64) -> None:
    print(a)


@kernel
def wrong_array(a: Array[i32]) -> i64:
    return over_rows(a)


@kernel
def over_rows(a: Array[i64]) -> i64:
    return len(a)


@kernel
def rebinds(c: Counter) -> None:
    c.rows = c.rows


@kernel
def no_field(c: Counter) -> i64:
    return c.counts  # type: ignore[attr-defined,no-any-return]


@kernel
def twice(c: Counter) -> i64:
    return both(c, c)


@kernel
def both(c: Counter, d: Counter) -> i64:
    return c.count + d.count


@kernel
def lambdas(a: i64) -> i64:
    return (lambda: a)()


@kernel
def keywords(c: Counter) -> i64:
    return over_rows(a=c.rows)


@kernel
def adds_array(c: Counter) -> i64:
    return c.rows + 1


@pytest.mark.parametrize(
    ("function", "sentence", "construct"),
    [
        (power, "a kernel has no operator Pow", "a**2"),
        (lists, "a kernel has no List expressions", "[a][0]"),
        (strings, "a kernel's literals are numbers, not 'text'", '"text"'),
        (unknown, "a kernel knows its locals and module-level names, not 'nowhere'", "+ nowhere"),
        (wide, f"a kernel's integers have 64 bits with sign, not {1 << 70}", "& WIDE"),
        (table, "a module-level name in a kernel must be a number, not 'TABLE'", "TABLE[a]"),
        (raises, "a kernel has no Raise statements", "raise ValueError"),
        (two_types, "local 'x' must keep one type; use another name", "x = 1.5"),
        (mixed, "a kernel mixes integers and floats through f64(...) only", "a if b > 0"),
        (float_index, "an index must be an integer, not a float; write i64(...)", "a[x]"),
        (float_shift, "operator << takes integers in a kernel, not floats", "x << 1"),
        (slices, "a kernel's arrays are indexed by one integer, not sliced", "a[1:]"),
        (falls_off, "a kernel with a result must return one on every path", "def falls_off"),
        (for_else, "a kernel's loops have no else", "for _ in range(a)"),
        (over_array, "a kernel's for loop runs over range(...)", "for x in a"),
        (
            calls_print,
            "a kernel calls kernels, intrinsics, casts and len, min, max, abs, not print",
            "print(a)",
        ),
        (wrong_array, "argument 'a' of over_rows has another type", "over_rows(a)"),
        (rebinds, "a kernel binds arrays to local names only", "c.rows = c.rows"),
        (no_field, "record Counter has no field 'counts'", "c.counts"),
        (twice, "one record cannot be passed twice in one call", "both(c, c)"),
        (
            lambdas,
            "a kernel calls kernels, intrinsics, casts and len, min, max, abs, not lambda: a",
            "(lambda: a)()",
        ),
        (keywords, "calls in a kernel pass positional arguments only", "over_rows(a=c.rows)"),
        (adds_array, "a kernel computes with numbers, not with an array", "c.rows + 1"),
    ],
    ids=lambda item: item.function.__name__ if isinstance(item, Kernel) else "",
)
def test_constructs(function: Kernel, sentence: str, construct: str) -> None:
    with pytest.raises(KernelError) as caught:
        function.compile()
    name = function.function.__name__
    match = re.fullmatch(
        rf"{re.escape(sentence)} \(test_refusals\.py:(\d+), kernel '{name}'\)", str(caught.value)
    )
    assert match, str(caught.value)
    lines = open_lines()
    assert construct in lines[int(match.group(1)) - 1]


def open_lines() -> list[str]:
    """This file."""
    with open(__file__, encoding="utf-8") as file:
        return file.read().splitlines()


@pytest.mark.parametrize(
    ("old", "new"), [("a + 1", "a + 2"), ("    return a + 1", "    pass"), ("a: i64", "b: i64")]
)
def test_a_file_that_changed_after_it_was_imported(tmp_path: Path, old: str, new: str) -> None:
    """Its text is another function now: machine code of that must not be kept for this one."""
    path = tmp_path / "edited.py"
    text = (
        "from daedal.native.kernel import kernel\nfrom daedal.native.types import i64\n"
        "@kernel\ndef edited(a: i64) -> i64:\n    return a + 1\n"
    )
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("edited", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text(text.replace(old, new) + "# longer\n")
    with pytest.raises(KernelError, match="a kernel's file must not change while it is in use"):
        module.edited.compile(ObjectCache(tmp_path / "cache"))
    path.write_text(text)
    module.edited.compile(ObjectCache(tmp_path / "cache"))
    assert module.edited(1) == 2


def test_parameters_need_annotations() -> None:
    def bare(a):  # type: ignore[no-untyped-def]
        return a

    bare.__qualname__ = "bare"
    with pytest.raises(KernelError, match=r"must be annotated with a scalar, Array\[...\] or a"):
        _ = kernel(bare).signature


def test_results_need_annotations() -> None:
    def silent(a: i64):  # type: ignore[no-untyped-def]
        return a

    silent.__qualname__ = "silent"
    with pytest.raises(KernelError, match="a kernel must return i64, f64, bool or None"):
        _ = kernel(silent).signature


def test_defaults() -> None:
    def default(a: i64 = 3) -> None:
        pass

    default.__qualname__ = "default"
    with pytest.raises(KernelError, match="positional and without defaults, not a"):
        _ = kernel(default).signature


def test_kernels_live_in_modules() -> None:
    with pytest.raises(KernelError, match="a kernel must be defined at module level"):

        @kernel
        def inner(a: i64) -> None:
            pass


def test_only_functions_become_kernels() -> None:
    with pytest.raises(KernelError, match="a kernel must be a function, not int"):
        kernel(3)  # type: ignore[arg-type]


def test_fields_of_records() -> None:
    with pytest.raises(KernelError, match=r"must be i64, f64, bool or Array\[...\], not 'i32'"):

        @record
        class Narrow:
            field: i32


@pytest.mark.parametrize(
    ("array", "offender"),
    [
        (np.zeros(3, dtype=np.int32), "a 1-D contiguous writable array of int32"),
        (np.zeros((3, 1), dtype=np.int64), "a 2-D contiguous writable array of int64"),
        (np.zeros(6, dtype=np.int64)[::2], "a 1-D strided writable array of int64"),
        (np.frombuffer(bytes(24), dtype=np.int64), "a 1-D contiguous read-only array of int64"),
        ([1, 2, 3], "list"),
    ],
)
def test_arrays_must_be_as_declared(array: object, offender: str) -> None:
    with pytest.raises(KernelError) as caught:
        over_rows(array)
    assert str(caught.value) == (
        "argument 'a' of kernel 'over_rows' must be a 1-D C-contiguous writable array of int64, "
        f"not {offender}"
    )


def test_arguments_are_counted() -> None:
    with pytest.raises(KernelError, match="kernel 'over_rows' takes 1 arguments, not 2"):
        over_rows(np.zeros(3, dtype=np.int64), 4)


def test_scalars_must_be_numbers() -> None:
    with pytest.raises(KernelError, match="argument 'a' of kernel 'same' must be a number"):
        same("many")


@kernel
def same(a: i64) -> i64:
    return a
