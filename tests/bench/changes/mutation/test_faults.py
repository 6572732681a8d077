"""Faults of sources: every operator, exact spans, what is left out, keys that survive edits."""

import pytest

from bench.changes.mutation.faults import OPERATORS, control_of, faults_of, planted

CASES = [
    ("compare", "x = a < (b)", ["x = a <= (b)"]),
    ("compare", "x = a < b is not c", ["x = a <= b is not c", "x = a < b is c"]),
    ("binary", "x = a + (  # not + this\n    b)", ["x = a - (  # not + this\n    b)"]),
    ("binary", "total += é", ["total -= é"]),
    ("boolean", "x = é and b or c", ["x = é or b or c", "x = é and b and c"]),
    ("negation", "x = not a", ["x = a"]),
    ("negation", "x = ~a & -b", ["x = a & -b", "x = ~a & b"]),
    ("constant", "x = 7, True", ["x = 8, True", "x = 6, True", "x = 7, False"]),
    ("condition", "if a:\n    f()", ["if True:\n    f()", "if False:\n    f()"]),
    (
        "condition",
        "with m.If(a & b):\n    f()",
        ["with m.If(1):\n    f()", "with m.If(0):\n    f()"],
    ),
    ("remove", "m.d.sync += a.eq(b)", ["pass"]),
    ("remove", "m.d.comb += [a, b]", ["pass", "m.d.comb += [*(), b]", "m.d.comb += [a, *()]"]),
    ("remove", "for a in b:\n    break", ["for a in b:\n    continue"]),
    ("swap", "x = np.minimum(a, b)", ["x = np.maximum(a, b)"]),
    ("swap", "x = Mux(a, b[0],\n f(c))", ["x = Mux(a, f(c), b[0])"]),
    ("slice", "x = a[b : c + d]", ["x = a[(b) + 1 : c + d]", "x = a[b : (c + d) - 1]"]),
    ("offset", "x = range(a, b.c)", ["x = range(a, b.c + 1)"]),
]


@pytest.mark.parametrize(("operator", "source", "faulty"), CASES)
def test_operators_change_one_thing(operator: str, source: str, faulty: list[str]) -> None:
    faults = [fault for fault in faults_of("a.py", source) if fault.operator == operator]
    assert sorted(planted(source, fault) for fault in faults) == sorted(faulty)


def test_every_operator_has_a_case() -> None:
    assert {operator for operator, _, _ in CASES} == set(OPERATORS)


def test_arms_in_brackets_are_left_alone() -> None:
    assert [f for f in faults_of("a.py", "x = Mux(a, (b), c)") if f.operator == "swap"] == []


LEFT_OUT = '''"""A docstring: 1 + 1."""

__all__ = ["f"]


def f(a: int | None = None) -> dict[str, int | None]:
    """And one more: 2 < 3."""
    assert a == 1, f"{a + 1}"
    if TYPE_CHECKING:
        g(1)
    report(f"{a + 1} of 2")
    print(3)
    x: int | None = zip(a, b, strict=True)
    raise ValueError("4" + str(5))


class C:
    def __repr__(self):
        return "6" * 7
'''


def test_what_no_test_need_notice_is_left_out() -> None:
    assert faults_of("a.py", LEFT_OUT) == []


SOURCE = "def f(a):\n    if a > 1:\n        return a + 1\n    return a + 1\n"


def test_keys_survive_edits_elsewhere() -> None:
    edited = "# A comment.\nimport x\n\n\n" + SOURCE.replace("if a > 1", "if a > 2")
    before = {fault.key for fault in faults_of("a.py", SOURCE)}
    after = {fault.key for fault in faults_of("a.py", edited)}
    gone = {fault.key for fault in faults_of("a.py", SOURCE) if fault.line == 2}
    assert before - after == gone
    assert len(before) == len(faults_of("a.py", SOURCE)), "equal lines have keys of their own"


def test_scopes_and_places_are_named() -> None:
    source = "class C:\n    x = 1\n\n    def f(self, a=2):\n        return [b + 3 for b in a]\n"
    faults = faults_of("a.py", source)
    assert [(f.line, f.column, f.scope, f.runs) for f in faults if f.after in ("2", "-")] == [
        (2, 8, "C", False),
        (5, 18, "C.f", True),
        (5, 20, "C.f", True),
    ]


def test_a_kernel_does_not_run_as_python() -> None:
    (fault,) = faults_of("a.py", "@kernel\ndef f(a):\n    return not a\n")
    assert not fault.runs


def test_a_function_that_is_called_at_import_does_not_run_in_tests() -> None:
    source = "def f(a):\n    return not a\n\n\ndef g(a):\n    return not f(a)\n\n\n"
    assert [fault.runs for fault in faults_of("a.py", source)] == [True, True]
    uses = "TABLE = [f(x) for x in range(3)]", "class C:\n    x = f(0)", "@f(1)\ndef h(): pass"
    for use in uses:
        assert [fault.runs for fault in faults_of("a.py", source + use)][:2] == [False, True]


def test_a_text_that_has_changed_is_refused() -> None:
    fault = faults_of("a.py", SOURCE)[0]
    with pytest.raises(ValueError, match="has changed"):
        planted(SOURCE.replace("f", "gg"), fault)


def test_a_control_changes_nothing_that_runs() -> None:
    source = planted(SOURCE, control_of("a.py", SOURCE))
    assert source.startswith(SOURCE) and source != SOURCE
    names: dict[str, object] = {}
    exec(source, names)  # noqa: S102 our own text
    assert names["f"](1) == 2  # type: ignore[operator]
