"""Barriers and fragments: texts before and after, and what has none."""

import re

import pytest

from daedal.common.errors import UnsupportedError
from daedal.compiler.tir.lower.barriers import lower_barriers
from daedal.compiler.tir.lower.fragments import lower_fragments
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text

HEAD = "func kernel(x: float32[64, 64], out y: float32[64, 64]):\n    for b in 2 block.x:\n"
SHARED = "        alloc s: float32[64] in shared\n"


def placed(body: str) -> str:
    """The body of a kernel with shared memory ``s`` after barriers were placed."""
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    text = func_text(lower_barriers(parse_func(HEAD + SHARED + lines)))
    assert text.startswith(HEAD + SHARED), text
    return "\n".join(line[8:] for line in text[len(HEAD + SHARED) :].splitlines())


WRITE = "for t in 8 thread.x:\n    s[t] = x[b, t]\n"
OWN = "for t in 8 thread.x:\n    y[b, t] = s[t]\n"
OTHER = "for t in 8 thread.x:\n    y[b, t] = s[7 - t]\n"
FIRST = "y[b, 0] = s[0]\n"


@pytest.mark.parametrize(
    ("before", "after", "barrier"),
    [
        (WRITE, OWN, False),
        (WRITE, OTHER, True),
        (OTHER, WRITE, True),
        (OWN, WRITE, False),
        (OTHER, OTHER, False),
        (WRITE, FIRST, False),
        (WRITE, FIRST.replace("s[0]", "s[1]"), True),
        (WRITE, OTHER.replace("s[7", "s[63"), False),
    ],
)
def test_a_barrier_is_where_threads_would_race(before: str, after: str, barrier: bool) -> None:
    """The first thread alone runs what is under no thread loop."""
    assert placed(before + after) == f"{before}{'barrier' + chr(10) if barrier else ''}{after}"[:-1]


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def test_a_loop_waits_for_its_last_iteration() -> None:
    write, other = WRITE.replace("x[b", "x[k"), OTHER.replace("y[b", "y[k")
    expected = f"for k in 4:\n    barrier\n{indented(write)}    barrier\n{indented(other)}"
    assert placed(f"for k in 4:\n{indented(write)}{indented(other)}") == expected[:-1]


def test_two_halves_of_a_buffer_need_one_barrier_an_iteration() -> None:
    write = "for t in 8 thread.x:\n    s[k % 2 * 8 + t] = x[k, t]\n"
    read = "for t in 8 thread.x:\n    y[k, t] = s[k % 2 * 8 + 7 - t]\n"
    expected = f"for k in 4:\n{indented(write)}    barrier\n{indented(read)}"
    assert placed(f"for k in 4:\n{indented(write)}{indented(read)}") == expected[:-1]


def test_an_early_iteration_is_not_forgotten() -> None:
    """Iteration 2 writes what another thread read in iteration 0; nothing between them waits."""
    write = "for t in 8 thread.x:\n    s[k % 2 * 8 + t] = x[k, t]\n"
    read = "for t in 8 thread.x:\n    y[k, t] = s[(k + 1) % 2 * 8 + 7 - t]\n"
    text = placed(f"for k in 3:\n{indented(write)}{indented(read)}")
    assert text.startswith("for k in 3:\n    barrier\n"), text


def test_many_blocks_along_two_axes_are_not_looked_at_one_by_one() -> None:
    """The number of a block moves all elements of its threads alike."""
    place = "b // 64 * 8 + t // 8, b % 64 * 8 + t % 8"
    text = f"""
func kernel(x: float32[512, 512], out y: float32[512, 512]):
    for b in 4096 block.x:
        for t in 64 thread.x:
            y[{place}] = 0.0
        for t in 64 thread.x:
            y[{place}] = y[{place}] + 1.0
""".lstrip()
    assert func_text(lower_barriers(parse_func(text))) == text
    for old, new in (("t // 8", "7 - t // 8"), ("b % 64 * 8", "b % 64 * 7")):
        other = text.replace(f"y[{place}] + 1", f"y[{place.replace(old, new)}] + 1")
        with pytest.raises(UnsupportedError, match="'y' is exchanged"):
            lower_barriers(parse_func(other))


def test_a_loop_of_copies_waits_once_before_it() -> None:
    copy = "for i in 4, t in 8 thread.x:\n    s[i * 8 + t] = x[i, t]\n"
    assert placed(OTHER + copy) == f"{OTHER}barrier\n{copy}"[:-1]


def test_nests_of_other_axes_are_of_their_first_thread() -> None:
    two = "for u in 2 thread.y, t in 8 thread.x:\n    s[u * 8 + t] = x[u, t]\n"
    assert placed(two + OWN.replace("s[t]", "s[t]")) == f"{two}{OWN}"[:-1]
    text = placed(two + OWN.replace("s[t]", "s[t + 8]"))
    assert text == f"{two}barrier\n{OWN.replace('s[t]', 's[t + 8]')}"[:-1]


def test_threads_do_not_exchange_inside_a_nest() -> None:
    text = "for t in 8 thread.x:\n    s[t] = x[b, t]\n    y[b, t] = s[7 - t]\n"
    with pytest.raises(UnsupportedError, match="'s' is exchanged; give what writes it"):
        placed(text)


def test_places_that_are_known_at_run_time_count_as_races() -> None:
    func = HEAD.replace("x: float32", "i: int32[64], x: float32") + SHARED
    body = "        for t in 8 thread.x:\n            s[t] = x[b, t]\n"
    body += "        for t in 8 thread.x:\n            y[b, t] = s[i[t]]\n"
    assert "barrier" in func_text(lower_barriers(parse_func(func + body)))


def test_threads_beyond_a_buffer_touch_nothing() -> None:
    """Where threads do not divide what they share, a condition keeps the last ones out."""
    guarded = "for t in 96 thread.x:\n    if t < 64:\n        {}\n"
    write, own = guarded.format("s[t] = x[b, t]"), guarded.format("y[b, t] = s[t]")
    assert placed(write + own) == f"{write}{own}"[:-1]
    other = guarded.format("y[b, t] = s[63 - t]")
    assert placed(write + other) == f"{write}barrier\n{other}"[:-1]


def test_threads_beyond_all_dimensions_touch_nothing() -> None:
    """A result of one element has one index for all of its dimensions."""
    text = """
func kernel(x: float32[3], out y: float32[1, 1, 1, 1, 1]):
    for t in 256 thread.x:
        if t < 1:
            y[t, t, t, t, t] = 0.0
        if t < 1:
            y[t, t, t, t, t] = y[t, t, t, t, t] + x[t]
""".lstrip()
    assert func_text(lower_barriers(parse_func(text))) == text


FRAGMENT = """
func kernel(x: float32[4, 64, 8], out y: float32[64, 8]):
    for b in 2 block.x:
        alloc f: float32[32, 8] in fragment
        for t in 8 thread.x, i in 4, j in 8:
            f[t * 4 + i, j] = 0.0
        for k in 4, u in 8 thread.x, i in 4, j in 8:
            f[u * 4 + i, j] = f[u * 4 + i, j] + x[k, b * 32 + u * 4 + i, j]
        for t in 8 thread.x, i in 4, j in 8:
            y[b * 32 + t * 4 + i, j] = f[t * 4 + i, j]
""".lstrip()


def test_a_fragment_is_a_tile_of_each_thread() -> None:
    expected = FRAGMENT.replace("float32[32, 8] in fragment", "float32[4, 8] in local")
    expected = re.sub(r"f\[[tu] \* 4 \+ i, j\]", "f[i, j]", expected)
    assert func_text(lower_fragments(parse_func(FRAGMENT))) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f[u * 4 + i, j] = f[u * 4 + i, j]", "f[u + i * 8, j] = f[u + i * 8, j]"),
        ("f[t * 4 + i, j] = 0.0", "f[t * 3 + i, j] = 0.0"),
        ("= f[t * 4 + i, j]", "= f[28 - t * 4 + i, j]"),
    ],
)
def test_elements_of_a_fragment_belong_to_one_thread(old: str, new: str) -> None:
    assert old in FRAGMENT
    with pytest.raises(UnsupportedError, match="each element of a fragment to one thread"):
        lower_fragments(parse_func(FRAGMENT.replace(old, new)))


def test_boxes_of_threads_do_not_overlap() -> None:
    text = FRAGMENT.replace("* 4 + i", "* 3 + i")
    with pytest.raises(UnsupportedError, match="those of 'f' have none"):
        lower_fragments(parse_func(text))


def test_thread_loops_under_conditions_are_refused() -> None:
    text = f"if b < 1:\n{indented(WRITE)}"
    with pytest.raises(UnsupportedError, match="put the condition inside"):
        placed(text)


def test_the_text_of_a_barrier_can_be_read() -> None:
    text = HEAD + "        barrier\n        y[b, 0] = x[b, 0]\n"
    assert func_text(parse_func(text)) == text


INTERLEAVED = """
func kernel(x: float32[64, 64], out y: float32[64, 64]):
    for b in 2 block.x:
        alloc f: float32[32, 16] in fragment
        for t in 32 thread.x, i in 4, j in 2, e in 2:
            f[i * 8 + t // 4, j * 8 + t % 4 * 2 + e] = 0.0
        for u in 32 thread.x, i in 4, j in 2, e in 2:
            y[b * 32 + i, j] = f[i * 8 + u // 4, j * 8 + u % 4 * 2 + e]
""".lstrip()


def test_elements_of_threads_may_alternate() -> None:
    """Rows have a common step, so each thread has four; columns have none: places stay free."""
    expected = INTERLEAVED.replace("float32[32, 16] in fragment", "float32[4, 10] in local")
    expected = re.sub(
        r"f\[i \* 8 \+ ([tu]) // 4, j \* 8 \+ \1 % 4 \* 2 \+ e\]", "f[i, j * 8 + e]", expected
    )
    assert func_text(lower_fragments(parse_func(INTERLEAVED))) == expected


@pytest.mark.parametrize(("old", "new"), [("% 4 * 2", "% 4"), ("i * 8", "i * 4"), ("// 4", "// 8")])
def test_elements_that_alternate_have_one_owner(old: str, new: str) -> None:
    assert old in INTERLEAVED
    with pytest.raises(UnsupportedError, match="those of 'f' have none"):
        lower_fragments(parse_func(INTERLEAVED.replace(old, new)))


def test_iterations_that_exist_stand_for_those_that_do_not() -> None:
    """In iteration 0 a condition keeps all threads out; in the others they race."""
    write = "for t in 8 thread.x:\n    if k >= 1:\n        s[k * 8 + t - 8] = x[k, t]\n"
    read = "for t in 8 thread.x:\n    if k >= 1:\n        y[k, t] = s[k * 8 - t - 1]\n"
    expected = f"for k in 4:\n{indented(write)}    barrier\n{indented(read)}"
    assert placed(f"for k in 4:\n{indented(write)}{indented(read)}") == expected[:-1]
