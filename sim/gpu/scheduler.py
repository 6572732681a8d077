"""The scheduler: blocks one after the other, the threads of a block as fibers in turn.

A pass runs every thread that can run until it waits or ends. What follows a pass: operations of
warps whose threads all wait for them; if there are none, those of groups of warps; then what
copies of boxes bring; if there is none of these, the barrier where all threads wait.
"""

from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.gpu.boxes import serve_arrivals
from daedal.sim.gpu.fibers import resume_fiber, start_fiber
from daedal.sim.gpu.groups import begin_groups, end_groups, serve_groups
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.races import fail
from daedal.sim.gpu.raw_memory import fill_words, load_i64, store_i64
from daedal.sim.gpu.reports import Failure, Site
from daedal.sim.gpu.thread import ROW, Slot, State
from daedal.sim.gpu.warps import serve_warps

__all__ = ["CANARY", "POISONED_BYTES", "STACK_BYTES", "run_launch"]

STACK_BYTES = 1 << 16
POISONED_BYTES = 1 << 12
"""Of each stack, where a thread's variables lie."""
CANARY = 0x5AFE57AC4CA9A27
"""Ends every stack."""


@kernel
def begin_thread(launch: Launch, thread: i64, x: i64, y: i64, z: i64) -> None:
    """A thread of the block (x, y, z), before its first instruction."""
    at = ROW * thread
    threads = launch.threads
    threads[at + Slot.STATE] = State.NEW
    threads[at + Slot.THREAD_X] = thread % launch.block_x
    threads[at + Slot.THREAD_Y] = thread // launch.block_x % launch.block_y
    threads[at + Slot.THREAD_Z] = thread // (launch.block_x * launch.block_y)
    threads[at + Slot.BLOCK_X] = x
    threads[at + Slot.BLOCK_Y] = y
    threads[at + Slot.BLOCK_Z] = z
    threads[at + Slot.SHARED] = launch.shared
    threads[at + Slot.NUMBER] = thread
    threads[at + Slot.LAUNCH] = launch.address
    threads[at + Slot.HOME] = launch.home_address
    threads[at + Slot.ENTRY] = launch.entry
    threads[at + Slot.BUFFERS] = launch.buffers
    threads[at + Slot.NUM_COPIES] = 0
    threads[at + Slot.FIRST_COPY] = 0
    threads[at + Slot.GROUPS] = 0
    threads[at + Slot.FENCES] = 0
    bottom = launch.stacks + thread * launch.stack_stride
    store_i64(bottom, CANARY)
    variables = bottom + STACK_BYTES - POISONED_BYTES
    fill_words(variables, POISONED_BYTES // 4, launch.poison)


@kernel
def run_thread(launch: Launch, thread: i64) -> None:
    """Run a thread until it waits or ends, if it can run."""
    state = launch.threads[ROW * thread + Slot.STATE]
    bottom = launch.stacks + thread * launch.stack_stride
    if state == State.NEW:
        start_fiber(launch.threads, launch.home, thread, bottom + STACK_BYTES)
    elif state == State.READY:
        resume_fiber(launch.threads, launch.home, thread)
    else:
        return
    if load_i64(bottom) != CANARY:
        fail(launch, Failure.OVERFLOW, thread, 0, 0, 0)


@kernel
def diverged(launch: Launch, thread: i64, site: i64, other: i64, other_site: i64) -> None:
    """End the launch because two threads do not wait at the same place."""
    fail(launch, Failure.DIVERGED, thread, site, 0, 0)
    launch.other_thread = other
    launch.other_site = other_site


@kernel
def pass_barrier(launch: Launch) -> bool:
    """Let all threads go on from a barrier; False if all have ended, or not all wait there."""
    threads = launch.threads
    waiting = -1
    for thread in range(launch.num_threads):
        if waiting < 0 and threads[ROW * thread + Slot.STATE] == State.BARRIER:
            waiting = thread
    if waiting < 0:
        return False
    site = threads[ROW * waiting + Slot.SITE]
    for thread in range(launch.num_threads):
        at = ROW * thread
        if threads[at + Slot.STATE] != State.BARRIER:
            diverged(launch, waiting, site, thread, Site.ENDED)
            return False
        if threads[at + Slot.SITE] != site:
            diverged(launch, waiting, site, thread, threads[at + Slot.SITE])
            return False
    for thread in range(launch.num_threads):
        threads[ROW * thread + Slot.STATE] = State.READY
    launch.epoch += 1
    return True


@kernel
def run_block(launch: Launch, x: i64, y: i64, z: i64) -> None:
    """All threads of a block, from begin to end."""
    launch.epoch += 1
    launch.block_first = launch.epoch
    fill_words(launch.shared, (launch.shared_bytes + 3) // 4, launch.poison)
    for thread in range(launch.num_threads):
        begin_thread(launch, thread, x, y, z)
    begin_groups(launch)
    launch.num_boxes = 0
    passes = 0
    goes_on = True
    while goes_on:
        if passes == launch.max_passes:
            fail(launch, Failure.ENDLESS, 0, 0, 0, 0)
            return
        order = (launch.block + passes) * launch.num_threads % len(launch.orders)
        for number in range(launch.num_threads):
            run_thread(launch, launch.orders[order + number])
            if launch.failure != Failure.NONE:
                return
        passes += 1
        goes_on = serve_warps(launch)
        if launch.failure != Failure.NONE:
            return
        if not goes_on:
            goes_on = serve_groups(launch)
            if launch.failure != Failure.NONE:
                return
        if not goes_on:
            goes_on = serve_arrivals(launch)
            if launch.failure != Failure.NONE:
                return
        if not goes_on:
            goes_on = pass_barrier(launch)
    end_groups(launch)


@kernel
def run_launch(launch: Launch) -> None:
    """All blocks, x fastest, until one fails."""
    launch.launch_first = launch.epoch + 1
    launch.block = 0
    for z in range(launch.grid_z):
        for y in range(launch.grid_y):
            for x in range(launch.grid_x):
                run_block(launch, x, y, z)
                if launch.failure != Failure.NONE:
                    return
                launch.block += 1
