"""Object code of many texts is made by children, and is what this process makes."""

from pathlib import Path

import pytest

from daedal.native import object_compiler
from daedal.native.cache import NoCache, ObjectCache
from daedal.native.levels import host_level
from daedal.native.object_compiler import LEAST_TEXTS, ObjectCompiler, compile_here


def adding(number: int) -> str:
    return f"define i64 @k{number}(i64 %x) {{\n  %y = add i64 %x, {number}\n  ret i64 %y\n}}\n"


def test_children_make_the_same_code() -> None:
    level = host_level()
    with ObjectCompiler(NoCache(), children=2) as compiler:
        items = [
            compiler.submit(adding(number), level, tiled=number % 2 == 0)
            for number in range(LEAST_TEXTS + 1)
        ]
        assert all(item.future is not None for item in items)
        assert [item.result() for item in items[:4]] == [compile_here(item) for item in items[:4]]
        assert all(item.result().startswith(b"\x7fELF") for item in items)


def test_few_texts_start_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_compiler, "_Child", pytest.fail)
    with ObjectCompiler(NoCache(), children=2) as compiler:
        items = [compiler.submit(adding(number), "aarch64", tiled=True) for number in range(3)]
        assert all(item.future is None and item.result() for item in items)


def test_a_child_starts_with_the_first_of_many_expected_texts() -> None:
    with ObjectCompiler(NoCache(), children=1, expected=LEAST_TEXTS) as compiler:
        item = compiler.submit(adding(1), "x86-64", tiled=True)
        assert item.future is not None and item.result() == compile_here(item)


def test_what_is_kept_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ObjectCache(tmp_path)
    with ObjectCompiler(cache, children=0) as compiler:
        made = compiler.submit(adding(1), "x86-64", tiled=False).result()
    monkeypatch.setattr(object_compiler, "compile_here", pytest.fail)
    with ObjectCompiler(cache, children=2) as compiler:
        items = [compiler.submit(adding(1), "x86-64", tiled=False) for _ in range(LEAST_TEXTS)]
        assert all(item.future is None and item.result() == made for item in items)


def test_this_process_goes_on_where_a_child_ends() -> None:
    with ObjectCompiler(NoCache(), children=1) as compiler:
        items = [compiler.submit(adding(n), "x86-64", tiled=True) for n in range(LEAST_TEXTS)]
        assert items[0].result()
        (child,) = compiler._children
        child._process.kill()
        child._process.wait()
        items.append(compiler.submit(adding(99), "x86-64", tiled=True))
        assert all(item.result() for item in items)


def test_a_text_that_llvm_rejects_is_an_error_that_says_why() -> None:
    with ObjectCompiler(NoCache(), children=1) as compiler:
        items = [compiler.submit("nonsense", "x86-64", tiled=True) for _ in range(LEAST_TEXTS)]
        with pytest.raises(RuntimeError, match="expected top-level entity"):
            items[0].result()
