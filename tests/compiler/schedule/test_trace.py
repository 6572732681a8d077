"""Traces: their text, their JSON, and what a damaged one is refused with."""

import contextlib
import json
from collections.abc import Callable

import numpy as np
import pytest

from daedal.common.errors import ScheduleError, UserError
from daedal.compiler import te
from daedal.compiler.schedule import Schedule, Trace, replay
from tests.support.tensor_programs import matmul


def small() -> Schedule:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    i, j, k = schedule.get_loops(schedule.get_block("c"))
    outer, inner = schedule.split(i, [None, 4])
    schedule.reorder(outer, k, j, inner)
    schedule.unroll(inner)
    return schedule


def test_text() -> None:
    assert str(small().trace) == (
        "%b0 = get_block(name='c')\n"
        "%l0, %l1, %l2 = get_loops(block=%b0)\n"
        "%l3, %l4 = split(loop=%l0, factors=[None, 4])\n"
        "reorder(order=[%l3, %l2, %l1, %l4])\n"
        "unroll(loop=%l4)\n"
    )


def test_json_round_trip() -> None:
    schedule = small()
    trace = Trace.from_json(schedule.trace.to_json())
    assert trace == schedule.trace
    assert str(replay(trace, te.create_prim_func(*matmul(), "f"))) == str(schedule)


def test_refused_calls_leave_no_trace() -> None:
    schedule = small()
    before = str(schedule.trace)
    c = schedule.get_block("c")
    with pytest.raises(ScheduleError):
        schedule.compute_inline(c)
    assert str(schedule.trace) == before + "%b0 = get_block(name='c')\n"


Change = Callable[[list[dict[str, object]]], object]

DAMAGE: list[tuple[Change, str]] = [
    (
        lambda items: items.append({"primitive": "run", "arguments": {}, "results": []}),
        "a trace may call primitives of a schedule, not 'run'",
    ),
    (
        lambda items: items.append({"primitive": "__init__", "arguments": {}, "results": []}),
        "a trace may call primitives of a schedule, not '__init__'",
    ),
    (lambda items: items.pop(1), "a trace must define %l0 before it uses it"),
    (
        lambda items: items.append({"primitive": "unroll", "arguments": {}, "results": []}),
        "unroll in a trace lacks 'loop'",
    ),
    (
        lambda items: items[0].update(results=["b7"]),
        "get_block gave ['b0'], the trace has ['b7']",
    ),
    (
        lambda items: items[2].update(arguments={"loop": "%l0", "factors": [None, "4"]}),
        "'factors' of split in a trace must be a list of (an integer or null), not [None, '4']",
    ),
    (
        lambda items: items[2].update(arguments={"loop": "%b0", "factors": [None, 4]}),
        "'loop' of split in a trace must be a loop, not '%b0'",
    ),
    (
        lambda items: items[3].update(arguments={"order": "%l3"}),
        "'order' of reorder in a trace must be a list of (a loop), not '%l3'",
    ),
    (
        lambda items: items.append({}),
        "an instruction of a trace must have a primitive and arguments",
    ),
    (
        lambda items: items[0].update(results=[3]),
        "the results of an instruction of a trace must be a list of names",
    ),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=[text[:40] for _, text in DAMAGE])
def test_damaged_traces(damage: Change, message: str) -> None:
    document = json.loads(small().trace.to_json())
    damage(document["instructions"])
    with pytest.raises(ScheduleError) as caught:
        replay(Trace.from_json(json.dumps(document)), te.create_prim_func(*matmul(), "f"))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a trace must be JSON as Trace.to_json writes it"),
        ("[]", "a trace must be an object of format 1"),
        ('{"format": 2}', "a trace must be an object of format 1"),
        ('{"format": 1}', "a trace must hold a list of instructions"),
        ('{"format": 1, "instructions": [3]}', "an instruction of a trace must be an object"),
    ],
)
def test_what_is_no_trace(text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Trace.from_json(text)
    assert str(caught.value) == message


def sampled(seed: int = 0) -> Schedule:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"), seed=seed)
    i, _, _ = schedule.get_loops(schedule.get_block("c"))
    _, inner = schedule.split(i, schedule.sample_perfect_tile(i, 2))
    schedule.annotate(inner, "unit", schedule.sample_categorical(["near", "far"]))
    return schedule


def test_decisions_are_recorded() -> None:
    trace = sampled().trace
    text = str(trace)
    assert list(trace.decisions) == [2, 4]
    assert f"num_tiles=2, max_innermost=None, decision={trace.decisions[2]})\n" in text
    assert "%l3, %l4 = split(loop=%l0, factors=[%v0, %v1])\n" in text
    assert text.endswith("annotate(target=%l4, key='unit', value=%v2)\n")


def test_other_decisions_reach_later_calls() -> None:
    func = te.create_prim_func(*matmul(), "f")
    trace = sampled().trace.with_decision(2, [6, 1]).with_decision(4, "far")
    again = replay(Trace.from_json(trace.to_json()), func)
    assert "for i_0 in 6, i_1 in 1 {unit: far}," in str(again)
    assert again.trace.decisions == {2: [6, 1], 4: "far"}
    assert again.trace.to_json() == trace.to_json()


def test_open_decisions_are_drawn_by_the_seed() -> None:
    func = te.create_prim_func(*matmul(), "f")
    trace = sampled().trace.with_decision(2, None)
    drawn = {tuple(replay(trace, func, seed=seed).trace.decisions[2]) for seed in range(40)}
    assert drawn == {(1, 6), (2, 3), (3, 2), (6, 1)}
    first, second = (str(replay(trace, func, seed=3).trace) for _ in range(2))
    assert first == second


def test_impossible_decisions() -> None:
    func = te.create_prim_func(*matmul(), "f")
    with pytest.raises(ScheduleError) as caught:
        replay(sampled().trace.with_decision(2, [4, 2]), func)
    assert str(caught.value) == (
        "a decision on tiles must be 2 factors of the extent 6, not [4, 2] (loop 'i')"
    )
    with pytest.raises(ScheduleError) as caught:
        sampled().trace.with_decision(3, [6, 1])
    assert str(caught.value) == (
        "a decision must stand at the position of a sampling primitive (2, 4), not at 3"
    )


def test_weights_decide_the_chances() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"), seed=5)
    drawn = [schedule.sample_categorical([1, 2, 3], [1.0, 0.0, 3.0]) for _ in range(400)]
    assert 2 not in drawn
    assert 250 < drawn.count(3) < 350


def busy() -> Schedule:
    """A trace of many primitives."""
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    c, d = schedule.get_block("c"), schedule.get_block("d")
    i, j = schedule.get_loops(d)
    i_0, _, _, _ = schedule.tile([i, j], [2, 2])
    schedule.compute_at(c, i_0)
    schedule.transform_layout(c, 0, "i, j -> j, i")
    schedule.storage_align(c, 0, 1, 8)
    k = schedule.get_loops(c)[-1]
    schedule.split(k, schedule.sample_perfect_tile(k, 2))
    schedule.cache_read(c, "a", "inp")
    schedule.rfactor(c, schedule.get_loops(c)[-1])
    schedule.pragma(i_0, "note", schedule.sample_categorical(["x", "y"], [1.0, 2.0]))
    return schedule


JUNK: list[object] = [
    *(None, True, 0, -1, 3, 2**70, 1.5, "", "c", "%l0", "%b0", "%l99", "i, j -> i", "%"),
    *([], [None], ["%l0", "%l0"], [3, None], [[]], {}, {"loop": 3}),
]


@pytest.mark.parametrize("seed", range(60))
def test_any_argument_in_a_trace_is_accepted_or_refused(seed: int) -> None:
    """Files from outside are untrusted: nothing but a sentence comes of a wrong one."""
    rng = np.random.default_rng(seed)
    func = te.create_prim_func(*matmul(), "f")
    document = json.loads(busy().trace.to_json())
    items = document["instructions"]
    item = items[int(rng.integers(len(items)))]
    name = str(rng.choice(sorted(item["arguments"])))
    junk = JUNK[int(rng.integers(len(JUNK)))]
    old = item["arguments"][name]
    if isinstance(old, list) and rng.integers(2):
        old[int(rng.integers(len(old)))] = junk
    else:
        item["arguments"][name] = junk
    with contextlib.suppress(UserError):
        replay(Trace.from_json(json.dumps(document)), func)
