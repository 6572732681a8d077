"""`count_network`: a network compiled for a variant with default schedules, and its cycles."""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING

from daedal.api import compile as compile_network
from daedal.artifact.artifact import Artifact
from daedal.codesign.cycles.work import Counts, Work
from daedal.common.errors import ExploreError, ToolError, UserError
from daedal.compiler.targets.capabilities import Capabilities
from daedal.isa.memory_file import AnyMemory, load_memory, memory_key
from daedal.isa.profile import Profile
from daedal.isa.program import variant_from_json
from daedal.isa.variant import Variant
from daedal.native.python_child import SAFE_PATH, changed_environment, without_main
from daedal.runtime.profiler.measure import measure
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.shielding import shielded
from daedal.sim.rtl.orphan import end_with_parent
from daedal.sim.timing.device import TimingDevice

if TYPE_CHECKING:
    from daedal.tuning.whole_network import WholeNetwork

__all__ = [
    "Counter",
    "Network",
    "count_network",
    "count_networks",
    "counters",
    "profile_artifact",
    "profile_network",
]

Counter = Callable[[Sequence[Variant]], Iterator[tuple[int, Counts | None]]]
"""Counts variants: yields the number of each and its counts as soon as they are known, None where a
network does not compile for it."""


@dataclasses.dataclass(frozen=True)
class Network:
    """A network to count.

    Attributes
    ----------
    model : serialized.
    on_host : the quantized tensors that the host may compute.
    with_options : those with other capabilities; no variant may have capabilities that are missing.
        Empty where `on_host` holds for all.
    """

    model: bytes
    on_host: frozenset[str] = frozenset()
    with_options: Mapping[Capabilities, frozenset[str]] = dataclasses.field(default_factory=dict)

    def on_host_of(self, variant: Variant) -> frozenset[str]:
        """The tensors that the host may compute beside a variant.

        Raises ExploreError where it would compute more than with the base.
        """
        able = Capabilities.of(variant)
        if self.with_options and able not in self.with_options:
            raise ExploreError(
                f"a variant must run the layers that the base runs, and {variant.name!r} lacks "
                "the options for it"
            )
        return self.with_options.get(able, self.on_host)


def count_network(
    model: bytes, variant: Variant, memory: AnyMemory, on_host: Collection[str] = ()
) -> int:
    """Cycles of all launches for one image, on the cycle model.

    A layer on the host costs none, so that a variant that cannot run a layer would look fast:
    the host may compute the quantized tensors `on_host` only.

    Raises
    ------
    UserError
        It does not compile for this variant, or leaves other layers to the host.
    """
    cycles = _counted(model, variant, memory, on_host).cycles
    assert cycles is not None, "the cycle model counts cycles"
    return cycles


def _counted(
    model: bytes, variant: Variant, memory: AnyMemory, on_host: Collection[str]
) -> Profile:
    """Of all launches. Raises as `count_network`."""
    network = _whole(model, variant, memory)
    others = [name for name in network.host_reasons if name not in on_host]
    if others:
        reason = network.host_reasons[others[0]].partition("\n")[0]
        raise ExploreError(
            f"a variant must run the layers of a network, and {variant.name!r} leaves "
            f"{len(others)} to the host, such as that of tensor {others[0]!r}: {reason}"
        )
    return network.profile({})


def _whole(model: bytes, variant: Variant, memory: AnyMemory = "ddr") -> "WholeNetwork":
    from daedal.tuning.whole_network import WholeNetwork

    return WholeNetwork(model, variant, memory)


def profile_network(
    model: bytes, variant: Variant, memory: AnyMemory, *, name: str = ""
) -> NetworkProfile:
    """Where the cycles of a network go; `name` is for titles.

    Raises
    ------
    UserError
        It does not compile for this variant.
    """
    artifact = compile_network(model, variant, memory=memory, cpu_levels=())
    return profile_artifact(artifact, memory, name=name)


def profile_artifact(artifact: Artifact, memory: AnyMemory, *, name: str = "") -> NetworkProfile:
    """As `profile_network`, of a network that is compiled."""
    timing = load_memory(memory)
    device = TimingDevice(artifact.variant, timing=timing)
    return measure(artifact, device, memory=memory_key(timing), name=name)


@contextmanager
def counters(
    networks: Mapping[str, Network], memory: AnyMemory, workers: int = 0
) -> Iterator[Counter]:
    """What counts `networks` on so many processes; 0: as many as there are processors.

    The processes end with the block, at once where an exception ends it.

    It raises ToolError where processes cannot be started, or one of them is killed.
    """
    others = set(active_children())
    with _told_if_none_starts():
        pool = ProcessPoolExecutor(
            workers or os.cpu_count() or 1,
            mp_context=get_context("spawn"),  # this process may have threads
            initializer=_begin,
            initargs=(dict(networks), memory, os.getpid()),
        )

    def count(variants: Sequence[Variant]) -> Iterator[tuple[int, Counts | None]]:
        tasks: dict[Future[Counts | None], int] = {}
        for number, variant in enumerate(variants):
            # Here the executor spawns its processes.
            with (
                _told_if_none_starts(),
                shielded(),
                changed_environment(SAFE_PATH),
                without_main(),
            ):
                tasks[pool.submit(_count, dataclasses.asdict(variant))] = number
        for task in as_completed(tasks):
            try:
                counts = task.result()
            except BrokenProcessPool as error:
                raise _killed() from error
            yield tasks[task], counts

    try:
        yield count
    except BaseException:
        for worker in set(active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _told_if_none_starts() -> Iterator[None]:
    """Turn errors of processes that do not start into ToolError."""
    try:
        yield
    except BrokenProcessPool as error:  # an earlier one
        raise _killed() from error
    except OSError as error:
        raise ToolError(
            f"processes that compile must start, and they do not: {error.strerror}; take fewer "
            "--workers; the same command continues"
        ) from error


def _killed() -> ToolError:
    return ToolError(
        "a process that compiles was killed, perhaps for want of memory; take fewer --workers; the "
        "same command continues"
    )


_NETWORKS: dict[str, Network] = {}
_MEMORY: list[AnyMemory] = ["ddr"]


def _begin(networks: dict[str, Network], memory: AnyMemory, parent: int) -> None:
    """In a worker: keep what all tasks need, and end with the parent."""
    end_with_parent(parent)
    _NETWORKS.update(networks)
    _MEMORY[0] = memory


def _count(data: dict[str, object]) -> Counts | None:
    return count_networks(_NETWORKS, variant_from_json(data), _MEMORY[0])


def count_networks(
    networks: Mapping[str, Network], variant: Variant, memory: AnyMemory
) -> Counts | None:
    """Cycles and work of each network; None where one of them does not run on the variant."""
    try:
        found = {
            name: _counted(network.model, variant, memory, network.on_host_of(variant))
            for name, network in networks.items()
        }
    except UserError:
        return None
    cycles = {name: float(profile.cycles or 0) for name, profile in found.items()}
    return Counts(cycles, {name: Work.of(profile) for name, profile in found.items()})
