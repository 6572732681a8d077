"""FETCH: assembles words into instructions and dispatches them, as far as times are known."""

from daedal.isa.latencies import QUEUE_CYCLES
from daedal.native.kernel import kernel
from daedal.sim.timing.gates import gate_time
from daedal.sim.timing.reads import pop_word, word_at
from daedal.sim.timing.state import FETCH, NEVER, Bus, Front, Plan

__all__ = ["run_fetch"]


@kernel
def _dispatch(p: Plan, f: Front) -> bool:
    """Dispatch the oldest complete instruction to its queue, if the time is known."""
    i = f.fetch_index
    u = p.unit[i]
    shows = max(f.fetch_complete[i & 1], f.fetch_taken)
    if u == FETCH:
        f.fetch_stall += shows - f.fetch_taken
        f.finish = shows + 2
        return True
    at = shows + 1
    slot = p.slot[i]
    at_least = at
    if slot >= p.queue_depth:
        # A queue entry is free once its instruction is at the queue's output.
        old = slot - p.queue_depth
        if old > f.head[u]:
            return False
        first = p.order_at[u]
        shown = f.dispatched[p.order[first + old]] + QUEUE_CYCLES
        if old > 0:
            shown = max(shown, f.passed[first + old - 1] + 1)
        at_least = max(at, shown)
    f.fetch_stall += shows - f.fetch_taken
    f.fetch_waits[u] += at_least - at
    f.dispatched[i] = at_least
    f.fetch_free[i & 1] = at_least + 1
    f.fetch_taken = at_least
    f.still = max(f.still, at_least + 1)
    f.fetch_index = i + 1
    if slot == f.head[u]:
        f.gate[u] = gate_time(p, f, u)
    return True


@kernel
def _collect(p: Plan, f: Front, b: Bus) -> bool:
    """Take the next word if it has arrived; after FINISH, words are drained unconditionally."""
    at = word_at(p, b, 0)
    if at == NEVER:
        return False
    at = max(at, f.fetch_last + 1)
    free = f.fetch_collected < f.fetch_index + 2
    if free:
        at = max(at, f.fetch_free[f.fetch_collected & 1])
    elif f.finish < NEVER:
        at = max(at, f.finish)
    else:
        return False
    f.fetch_last = at
    pop_word(b, 0, at)
    f.fetch_word += 1
    if f.fetch_word == p.instruction_words:
        f.fetch_word = 0
        f.fetch_complete[f.fetch_collected & 1] = at
        f.fetch_collected += 1
    return True


@kernel
def run_fetch(p: Plan, f: Front, b: Bus) -> None:
    """Take words and dispatch instructions until neither can make progress."""
    while True:
        some = False
        if f.fetch_index < f.fetch_collected and f.finish == NEVER:
            some = _dispatch(p, f)
        if not _collect(p, f, b) and not some:
            return
