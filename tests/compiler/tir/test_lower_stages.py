"""Copies in stages: the text before and after, what they compute, and what is refused."""

import numpy as np
import pytest

from daedal.common.errors import UnsupportedError
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower.barriers import lower_barriers
from daedal.compiler.tir.lower.stages import lower_stages
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import PrimFunc

BEFORE = """
func kernel(x: float16[5, 64], out y: float16[5, 64]):
    for b in 2 block.x, k in 5:
        alloc s: float16[64] in shared {stages: 3}
        for t in 8 thread.x, v in 8:
            s[t * 8 + v] = x[k, t * 8 + v]
        for t in 8 thread.x, v in 8:
            y[k, t * 8 + v] = s[63 - t * 8 - v]
""".lstrip()

AFTER = """
func kernel(x: float16[5, 64], out y: float16[5, 64]):
    for b in 2 block.x:
        alloc s: float16[3, 64] in shared
        for stage in 2:
            for t in 8 thread.x, v in 8 {asynchronous: True}:
                s[stage, t * 8 + v] = x[stage, t * 8 + v]
            commit
        for k in 5:
            wait 1 for s[k % 3, 0:+64]
            barrier
            for t in 8 thread.x:
                if k + 2 < 5:
                    for v in 8 {asynchronous: True}:
                        s[(k + 2) % 3, t * 8 + v] = x[k + 2, t * 8 + v]
            commit
            for t in 8 thread.x, v in 8:
                y[k, t * 8 + v] = s[k % 3, 63 - t * 8 - v]
""".lstrip()


def staged(text: str) -> PrimFunc:
    return lower_barriers(lower_stages(parse_func(text)))


def test_copies_begin_two_iterations_ahead() -> None:
    """One barrier an iteration orders both the reads of a stage and the copies that follow them."""
    assert func_text(staged(BEFORE)) == AFTER
    assert func_text(parse_func(AFTER)) == AFTER


@pytest.mark.parametrize("stages", [2, 3, 4, 5, 9])
def test_any_number_of_stages_computes_the_same(stages: int) -> None:
    x = np.arange(320, dtype=np.float16).reshape(5, 64)
    text = BEFORE.replace("stages: 3", f"stages: {stages}")
    (found,) = run(staged(text), {"x": x}).values()
    np.testing.assert_array_equal(found, x[:, ::-1])
    assert func_text(staged(text)).count("barrier") == 1
    assert f"s: float16[{min(stages, 5)}, 64]" in func_text(staged(text))


def test_a_loop_of_one_iteration_has_one_stage() -> None:
    text = BEFORE.replace("k in 5", "k in 1").replace("[5, 64]", "[1, 64]")
    assert func_text(lower_stages(parse_func(text))) == text.replace(" {stages: 3}", "")


def test_zeros_are_copied_where_an_operand_ends() -> None:
    """The condition holds for whole copies, so the limits of the index are not needed."""
    text = BEFORE.replace(
        "x[k, t * 8 + v]", "select(t * 8 + v < 40, x[k, min(t * 8 + v, 39)], 0.0)"
    ).replace("x: float16[5, 64]", "x: float16[5, 40]")
    x = np.arange(200, dtype=np.float16).reshape(5, 40)
    (found,) = run(staged(text), {"x": x}).values()
    np.testing.assert_array_equal(found[:, ::-1], np.pad(x, ((0, 0), (0, 24))))


def test_what_is_not_staged_stays_in_its_place() -> None:
    """A buffer that is filled in the same iteration needs a barrier before its reads, too."""
    text = BEFORE.replace(
        "        for t in 8 thread.x, v in 8:\n            y[",
        "        for t in 8 thread.x:\n            p[t] = x[k, t]\n"
        "        for t in 8 thread.x, v in 8:\n            y[",
    )
    text = text.replace("{stages: 3}\n", "{stages: 3}\n        alloc p: float16[8] in shared\n")
    text = text.replace("s[63 - t * 8 - v]", "s[63 - t * 8 - v] + p[7 - t]")
    after = func_text(staged(text))
    assert after.count("barrier") == 2
    assert after.index("commit\n            for t in 8 thread.x:\n                p[t]") > 0
    x = np.arange(320, dtype=np.float16).reshape(5, 64)
    (found,) = run(staged(text), {"x": x}).values()
    np.testing.assert_array_equal(found, x[:, ::-1] + np.repeat(x[:, 7::-1], 8, axis=1))


def test_threads_that_read_their_own_copies_alone_wait_for_others_all_the_same() -> None:
    """Whose copies have landed is not known of a wait: a barrier follows wherever they are read."""
    text = func_text(staged(BEFORE.replace("63 - t * 8 - v", "t * 8 + v")))
    assert text.count("barrier") == 1


def test_many_iterations_are_not_looked_at_one_by_one() -> None:
    """Elements repeat after as many iterations as there are stages."""
    text = BEFORE.replace("k in 5", "k in 5000").replace("[5, 64]", "[5000, 64]")
    assert func_text(staged(text)) == AFTER.replace("k in 5", "k in 5000").replace(
        "[5, 64]", "[5000, 64]"
    ).replace("k + 2 < 5", "k + 2 < 5000")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "v in 8:\n            s[t * 8 + v]",
            "v in 8:\n            s[t * 8 + 7 - v]",
            "8 elements",
        ),
        ("x[k, t * 8 + v]", "x[k, t * 7 + v]", "are not 4, 8 or 16 bytes that follow"),
        ("x[k, t * 8 + v]", "x[k, t * 8 + v] + 1.0", "are not 4, 8 or 16 bytes that follow"),
        ("x[k, t * 8 + v]", "select(t * 8 + v < 41, x[k, t], 0.0)", "are not 4, 8 or 16 bytes"),
        ("v in 8:\n            s", "v in 8, w in 1:\n            s", "the 1 elements of its inn"),
        ("    s[t * 8 + v] = x[k, t * 8 + v]", "    y[k, t] = x[k, t]", "nothing in the loop arou"),
        ("y[k, t * 8 + v] = s", "s[t * 8 + v] = s", "nothing in the loop around it reads"),
        ("k in 5:", "k in 5 thread.y:", "must be executed in order"),
        ("x[k, t * 8 + v]", "y[k, t * 8 + v]", "must come from an input"),
    ],
)
def test_what_no_asynchronous_copy_does_is_refused(old: str, new: str, reason: str) -> None:
    assert old in BEFORE
    with pytest.raises(UnsupportedError, match=f"'s' has stages: .*{reason}.*leave the stages out"):
        lower_stages(parse_func(BEFORE.replace(old, new)))


def test_stages_need_a_loop_around_their_buffer() -> None:
    text = BEFORE.replace("for b in 2 block.x, k in 5:", "for k in 5:\n        for b in 2 block.x:")
    body = text.splitlines(keepends=True)
    moved = "".join([*body[:3], *("    " + line for line in body[3:])])
    moved = moved.replace("x, v in 8:", "x, v in 8:").replace(
        "            alloc",
        "            for q in 2:\n                y[k, q] = x[k, q]\n            alloc",
    )
    with pytest.raises(UnsupportedError, match="allocated directly inside of a loop"):
        lower_stages(parse_func(moved))
