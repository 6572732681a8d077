"""The examples in the documentation of primitives: each shows the loop IR before and after."""

import doctest
from types import ModuleType

import pytest

from daedal.compiler.schedule import Schedule, examples, replay, sampling
from daedal.compiler.tir import condition

PRIMITIVES = {
    name: method
    for name in dir(Schedule)
    if hasattr(method := getattr(Schedule, name), "__wrapped__") and not name.startswith("get_")
}

SHOW = 'print(sch, end="")\n'


def example_of(name: str) -> doctest.DocTest:
    globs = {key: getattr(examples, key) for key in examples.__all__}
    doc = PRIMITIVES[name].__doc__
    assert doc is not None, f"{name} has no documentation"
    return doctest.DocTestParser().get_doctest(doc, {**globs, "replay": replay}, name, None, None)


def test_every_primitive_of_the_design_is_there() -> None:
    assert set(PRIMITIVES) == {
        *("split", "tile", "fuse", "reorder", "unroll", "vectorize", "parallel", "bind"),
        *("compute_at", "reverse_compute_at", "compute_inline", "reverse_compute_inline"),
        *("cache_read", "cache_write", "set_scope", "rfactor", "decompose_reduction"),
        *("storage_align", "double_buffer", "stage", "swizzle", "virtual_thread"),
        *("transform_layout", "blockize"),
        *("tensorize", "pragma", "annotate", "sample_perfect_tile", "sample_categorical"),
    }


@pytest.mark.parametrize("name", PRIMITIVES)
def test_the_call_makes_of_the_text_before_the_text_after(name: str) -> None:
    example = example_of(name)
    report: list[str] = []
    result = doctest.DocTestRunner().run(example, out=report.append)
    assert not result.failed, "".join(report)
    sources = [item.source for item in example.examples]
    first = sources.index(SHOW)
    last = sources.index(SHOW, first + 1)
    calls = sources[first + 1 : last]
    assert any(f"sch.{name}(" in call for call in calls), "the call stands between the texts"
    before, after = example.examples[first].want, example.examples[last].want
    assert before.startswith("func ") and after.startswith("func ")
    assert before != after


@pytest.mark.parametrize("module", [condition, sampling])
def test_examples_of_helpers(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
