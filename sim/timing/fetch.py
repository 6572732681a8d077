"""FETCH: words to instructions, and instructions to their queues, as far as it is known."""

from daedal.isa.latencies import QUEUE_CYCLES
from daedal.native.kernel import kernel
from daedal.sim.timing.gates import gate_time
from daedal.sim.timing.reads import pop_word, word_at
from daedal.sim.timing.state import FETCH, NEVER, Bus, Front, Plan

__all__ = ["run_fetch"]


@kernel
def _dispatch(p: Plan, f: Front) -> bool:
    """Hand the complete instruction at hand to its queue, if the time is known."""
    i = f.fetch_index
    u = p.unit[i]
    at = f.fetch_ready + 1
    if u == FETCH:
        f.finish = f.fetch_ready + 2
        f.fetch_ready = 0
        return True
    slot = p.slot[i]
    at_least = at
    if slot >= p.queue_depth:
        # The place of an instruction is free once it stands at the queue's output.
        old = slot - p.queue_depth
        if old > f.head[u]:
            return False
        first = p.order_at[u]
        shown = f.dispatched[p.order[first + old]] + QUEUE_CYCLES
        if old > 0:
            shown = max(shown, f.passed[first + old - 1] + 1)
        at_least = max(at, shown)
    f.fetch_waits[u] += at_least - at
    f.dispatched[i] = at_least
    f.fetch_taken = at_least
    f.still = max(f.still, at_least + 1)
    f.fetch_ready = 0
    f.fetch_index = i + 1
    if slot == f.head[u]:
        f.gate[u] = gate_time(p, f, u)
    return True


@kernel
def run_fetch(p: Plan, f: Front, b: Bus) -> None:
    """Take words and dispatch until something is missing. After FINISH all words are taken."""
    while True:
        if f.fetch_ready > 0 and not _dispatch(p, f):
            return
        at = word_at(p, b, 0)
        if at == NEVER:
            return
        at = max(at, f.fetch_last + 1)
        if f.finish < NEVER:
            f.fetch_last = at
            pop_word(b, 0, at)
            continue
        last = f.fetch_word == p.instruction_words - 1
        if last:
            at = max(at, f.fetch_taken)
        f.fetch_last = at
        pop_word(b, 0, at)
        if last:
            f.fetch_word = 0
            f.fetch_stall += at - f.fetch_taken
            f.fetch_ready = at
        else:
            f.fetch_word += 1
