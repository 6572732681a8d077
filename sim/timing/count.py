"""Count the cycles of a launch: program, bases and memory model in, a profile out."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from daedal.common.errors import DeviceError
from daedal.isa.memory_model import MemoryModel
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Opcode, Unit
from daedal.sim.timing.gates import COUNTS, SNAPS
from daedal.sim.timing.loop import run, run_sdram
from daedal.sim.timing.prepare import prepare
from daedal.sim.timing.sdram_state import sdram_state
from daedal.sim.timing.state import (
    PORTS,
    RING,
    WORD_RING,
    Bus,
    Core,
    Front,
    Mover,
    Plan,
)

__all__ = ["Count", "count_cycles"]

_T = TypeVar("_T")

DEVICE = "timing"
_DEADLOCK, _LIMIT = -1, -2

# Lengths of the arrays that are not RING entries long.
_FRONT_SIZES = {
    "head": 4, "gate": 4, "ready": 4, "given": 16, "taken": 16, "places_taken": 4,
    "places_freed": 4, "place_times": 4 * RING, "done": 4, "done_at": 4, "retired": 4,
    "retired_at": 4, "busy": 4, "alone": 4, "idle": 4, "waits": 16, "work": 4, "snap_in": 4,
    "snap_out": 4, "snap_index": 4 * SNAPS, "snap_time": 4 * SNAPS, "snap_busy": 4 * SNAPS,
    "snap_work": 4 * SNAPS, "saved": 4, "fetch_waits": 4,
    "fetch_complete": 2, "fetch_free": 2,
}  # fmt: skip
_BUS_SIZES = {
    **dict.fromkeys(("pop_time", "piece_size", "piece_at"), 2 * WORD_RING),
    **dict.fromkeys(("granted", "popped", "piece_in", "piece_out", "piece_word", "wanted"), 2),
    **dict.fromkeys(
        ("loaded", "shown", "burst", "burst_where", "burst_last", "free", "left", "where", "begin",
         "ready", "offered", "offer_at", "offer_where", "offer_beats", "offer_last", "request_last",
         "spare_shown", "spare", "spare_where", "spare_last", "queued", "queued_at",
         "queued_where", "queued_beats", "queued_last", "room"), 4,
    ),
}  # fmt: skip
_MOVER_SIZES = {
    **dict.fromkeys(("job_push", "job_pop", "job_index"), 2 * RING),
    **dict.fromkeys(
        ("held", "held_from", "left_at", "job_due", "walk_due", "job_in", "job_out", "walking",
         "walk_index", "walk_at", "walk_free",
         "walk_rows", "walk_blocks", "row_address", "block_address"), 2,
    ),
    "mark_out": 4,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Count:
    """A profile, the number of cycles the model evaluated, and the processor time that took."""

    profile: Profile
    ticks: int
    model_seconds: float


def count_cycles(
    program: Program,
    bases: Sequence[int],
    memory: npt.NDArray[np.uint8],
    timing: MemoryModel,
    *,
    with_marks: bool = True,
    limit: int = 1 << 40,
    form: str = "machine",
) -> Count:
    """Run a program on the model.

    Parameters
    ----------
    program : must pass `isa.verifier.verify`; of its checks, those of rows,
        regions and deadlock are repeated here.
    bases : byte addresses of the regions.
    memory : external memory from byte 0; only micro-ops are read from it.
    timing : memory model without random numbers.
    with_marks : record marked instructions. A machine without counters has no recorder: its marks
        delay nothing, and the model records them all the same.
    limit : cycles after which a run is abandoned.
    form : ``machine`` code, ``plain`` Python or ``checked`` machine code (`native.kernel`).

    Raises
    ------
    DeviceError
        The memory model is random, an instruction waits for ever, the program has no FINISH, or
        rows, micro-ops or words of a region do not exist.
    """
    if timing.is_random:
        raise DeviceError(
            f"the cycle model needs a memory without random delays, not {timing.name!r}; choose "
            "another preset, or simulate on device 'rtl'"
        )
    began = time.perf_counter()
    if not program.instructions or program.instructions[-1].opcode is not Opcode.FINISH:
        raise DeviceError("a program must end with FINISH; this one does not")
    plan = prepare(program, bases, memory, timing, with_marks)
    front, bus, mover, core = _state(plan, program)
    state: tuple[Any, ...] = (plan, front, bus, mover, core)
    kernel: Any = run
    if timing.sdram is not None:
        state, kernel = (*state, sdram_state(timing.sdram)), run_sdram
    code = {"plain": kernel.plain, "checked": kernel.checked, "machine": kernel}[form]
    prepared = time.thread_time()
    cycles = code(*state, limit)
    model_seconds = time.thread_time() - prepared
    if cycles == _LIMIT:
        raise DeviceError(f"a run must end within {limit} cycles; it did not")
    if cycles == _DEADLOCK:
        raise DeviceError(_deadlock(program, plan, front))
    profile = Profile(
        device=DEVICE,
        cycles=cycles,
        beats_read=bus.beats_read,
        beats_written=bus.beats_written,
        units=_units(program, front, cycles),
        marks=_marks(program, plan, front),
        wall_seconds=time.perf_counter() - began,
    )
    return Count(profile, front.ticks, model_seconds)


def _zeros(kind: type[_T], sizes: dict[str, int], **given: Any) -> _T:
    """A record whose arrays are zero, of length RING unless `sizes` gives another one."""
    arrays = {
        spec.name: np.zeros(sizes.get(spec.name, RING), dtype=np.int64)
        for spec in dataclasses.fields(kind)  # type: ignore[arg-type]
        if spec.default is dataclasses.MISSING
    }
    return kind(**{**arrays, **given})


def _state(plan: Plan, program: Program) -> tuple[Front, Bus, Mover, Core]:
    """The machine before its first cycle."""
    count = len(program.instructions)
    sizes = {
        **_FRONT_SIZES,
        "passed": count,
        "gives": int(plan.give_at[-1]),
        "mark_cycle": count,
        "mark_counts": COUNTS * count,
    }
    front = _zeros(Front, sizes, dispatched=np.full(count, -1, dtype=np.int64))
    front.gate[:] = 1 << 60
    bus = _zeros(Bus, _BUS_SIZES)
    mover = _zeros(Mover, _MOVER_SIZES)
    rows = scratchpad(program.variant, Memory.ACC).depth_rows
    ports = np.full(PORTS, -2, dtype=np.int64)
    core = _zeros(
        Core,
        {
            "flight": rows,
            "spans": 2 * RING,
            "wait_index": 8,
            "wait_at": 8,
            **dict.fromkeys(("waits_in", "waits_out", "room_at"), 4),
            **dict.fromkeys(("hold", "left_row"), 2),
        },
        lost=ports,
        hold_at=np.full(2, -1, dtype=np.int64),
        left_at=np.full(2, -3, dtype=np.int64),
    )
    return front, bus, mover, core


def _deadlock(program: Program, plan: Plan, front: Front) -> str:
    """A sentence that names an instruction waiting for ever."""
    for unit in (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE):
        slot = int(front.head[unit])
        first, last = int(plan.order_at[unit]), int(plan.order_at[unit + 1])
        if first + slot < last:
            index = int(plan.order[first + slot])
            return (
                f"every instruction must get its tokens; instruction {index} ({unit.name}) waits "
                "for ever"
            )
    return "a program must end with FINISH; this one does not"


def _units(program: Program, front: Front, cycles: int) -> dict[Unit, UnitCounters]:
    """Cycle classes of every unit; STALL counts the cycles that belong to no other class."""
    result = {}
    for unit in Unit:
        if unit is Unit.FETCH:
            busy = len(program.instructions) - 1
            idle, stall = 0, front.fetch_stall
            waits = [int(value) for value in front.fetch_waits]
            idle = cycles - busy - stall - sum(waits)
            work = busy
        else:
            busy = int(front.busy[unit] + front.alone[unit])
            idle = int(front.idle[unit])
            waits = [int(value) for value in front.waits[4 * unit : 4 * unit + 4]]
            stall = cycles - busy - idle - sum(waits)
            work = int(front.work[unit])
        numbers = (idle, busy, *waits, stall)
        result[unit] = UnitCounters(dict(zip(CLASSES, numbers, strict=True)), work)
    return result


def _marks(program: Program, plan: Plan, front: Front) -> tuple[MarkRecord, ...]:
    """Mark records, ordered by cycle."""
    records = []
    for index in np.flatnonzero(plan.mark):
        item = program.instructions[index]
        numbers = front.mark_counts[COUNTS * index : COUNTS * (index + 1)].tolist()
        classes = dict(zip(CLASSES, numbers[:-1], strict=True))
        records.append(
            MarkRecord(
                tag=item.tag,
                unit=item.unit,
                instruction=int(index),
                cycle=int(front.mark_cycle[index]),
                counters=UnitCounters(classes, numbers[-1]),
            )
        )
    return tuple(sorted(records, key=lambda mark: (mark.cycle, mark.unit)))
