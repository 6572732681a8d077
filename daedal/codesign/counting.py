"""`count_network`: a network compiled for a variant with default schedules, and its cycles."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from daedal.api import compile as compile_network
from daedal.isa.errors import ToolError, UserError
from daedal.isa.memory_model import PRESETS
from daedal.isa.program import variant_from_json
from daedal.isa.variant import Variant
from daedal.runtime.profiler.measure import measure
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.sim.timing.device import TimingDevice

__all__ = ["Counter", "Cycles", "count_network", "counters", "profile_network"]

import dataclasses

Cycles = Mapping[str, int]
Counter = Callable[[Sequence[Variant]], Iterator[tuple[int, Cycles | None]]]
"""Counts variants: yields the number of each and its cycles by network as soon as they are known,
None where a network does not compile for it."""


def count_network(model: bytes, variant: Variant, memory: str) -> int:
    """Cycles of all launches for one image, on the cycle model.

    Raises
    ------
    UserError
        It does not compile for this variant.
    """
    from daedal.tuning.whole_network import WholeNetwork

    return WholeNetwork(model, variant, memory).count({}).total


def profile_network(
    model: bytes, variant: Variant, memory: str, *, name: str = ""
) -> NetworkProfile:
    """Where the cycles of a network go; `name` is for titles.

    Counters change no cycle, and layers are told apart by them: a variant without gets them.

    Raises
    ------
    UserError
        It does not compile for this variant.
    """
    artifact = compile_network(model, variant.replace(counters=True))
    device = TimingDevice(artifact.variant, timing=PRESETS[memory])
    return measure(artifact, device, memory=memory, name=name)


@contextmanager
def counters(models: Mapping[str, bytes], memory: str, workers: int = 0) -> Iterator[Counter]:
    """What counts `models` on so many processes; 0: as many as there are processors.

    It raises ToolError where one of the processes is killed.
    """
    context = get_context("spawn")  # the parent may have threads
    with ProcessPoolExecutor(
        workers or os.cpu_count() or 1,
        mp_context=context,
        initializer=_begin,
        initargs=(dict(models), memory),
    ) as pool:

        def count(variants: Sequence[Variant]) -> Iterator[tuple[int, Cycles | None]]:
            tasks: dict[Future[Cycles | None], int] = {
                pool.submit(_count, dataclasses.asdict(variant)): number
                for number, variant in enumerate(variants)
            }
            for task in as_completed(tasks):
                try:
                    cycles = task.result()
                except BrokenProcessPool as error:
                    raise ToolError(
                        "a process that compiles was killed, perhaps for want of memory; take "
                        "fewer --workers; the same command continues"
                    ) from error
                yield tasks[task], cycles

        yield count


_INTERRUPTED = 130
_MODELS: dict[str, bytes] = {}
_MEMORY = ["ddr"]


def _begin(models: dict[str, bytes], memory: str) -> None:
    """In a worker: keep what all tasks need."""
    # A terminal interrupts all processes; the parent alone tells of it.
    signal.signal(signal.SIGINT, lambda *_given: os._exit(_INTERRUPTED))
    _MODELS.update(models)
    _MEMORY[0] = memory


def _count(data: dict[str, object]) -> Cycles | None:
    variant = variant_from_json(data)
    try:
        return {name: count_network(model, variant, _MEMORY[0]) for name, model in _MODELS.items()}
    except UserError:
        return None
