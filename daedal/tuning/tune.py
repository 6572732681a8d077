"""The public function `tune`: searches schedules of a model's layers by measuring them.

>>> tuning = daedal.tune("digits_qdq.onnx", "tuned.db", "vta", trials=64)
>>> [(item.layers, item.default_cycles, item.best_cycles) for item in tuning.results]
>>> artifact = daedal.compile("digits_qdq.onnx", "vta", records="tuned.db")
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from daedal.api import GPU, is_cpu, target_variant
from daedal.common.errors import TuningError, UserError
from daedal.common.reporting import log
from daedal.compiler.frontend.reader import Source, source_of
from daedal.compiler.tune.database import Database
from daedal.compiler.version import cycles_version
from daedal.isa.memory_file import AnyMemory
from daedal.isa.variant import Variant
from daedal.tuning.accelerator import AcceleratorTuning
from daedal.tuning.budget import Budget
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.network import NetworkTuning, tune_network
from daedal.tuning.pool_access import joined_pool
from daedal.tuning.runner import MakeRunner
from daedal.tuning.selection import other_machines
from daedal.tuning.target import Setting, TuningTarget

__all__ = ["tune", "variant_to_tune"]

TRIALS = 256
"""Without a budget."""


def tune(
    model: Source,
    records: str | Path,
    variant: Variant | str | None = None,
    *,
    target: str | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    memory: AnyMemory = "ddr",
    explain: Sequence[str] = (),
    seed: int = 0,
    workers: int = 0,
    pool: str | None = None,
    tls: str | Path | None = None,
    timeout_seconds: float | None = None,
    report: Callable[[str], None] | None = None,
) -> NetworkTuning:
    """Measure schedules of a model's layers, and record them for `daedal.compile`.

    Every batch is recorded at once, and the same call continues. KeyboardInterrupt ends the search:
    the result so far is returned, with `selection` None.

    Parameters
    ----------
    model : int8 QDQ ONNX for a variant, any for ``cpu`` and ``gpu``.
    records : the database, made unless it exists.
    variant, target : one of both, as for `daedal.compile`: a variant, or ``cpu`` or ``gpu``, which
        are those of this machine.
    trials, seconds : schedules to measure at most, and for about how long. Without both, 256, or
        none with layers to explain, which are explained from the records.
    memory : behind the accelerator's bus.
    explain : names of layers whose best schedules are explained.
    seed : of the search.
    workers : processes of this machine that measure; without any, this process. They import the
        main module, so a script that gives some is guarded as in docs/pool.md.
    pool, tls : the address of a pool that measures, and the folder of its certificates
        (docs/pool.md).
    timeout_seconds : what a schedule may take on workers or a pool; 120 by default.
    report : called with a sentence before each long step.

    Raises
    ------
    TuningError
        A budget that is empty, a network with nothing to tune, an unknown layer, or a pool that is
        not there.
    ModelError, VariantError, UserError, ScheduleError
        As `daedal.compile`.
    """
    Budget(trials, seconds)  # refused before the database is made
    if trials is None and seconds is None and not explain:
        trials = TRIALS
    chosen = variant_to_tune(variant, target)
    if chosen is None and any([explain, workers, pool, tls, timeout_seconds]):
        raise TuningError(
            "explanations, workers, a pool and its settings are for accelerators; leave them out "
            f"for target {target}"
        )
    source, records = source_of(model), Path(records)
    with (
        joined_pool(
            pool,
            tls,
            workers=workers,
            timeout_seconds=timeout_seconds,
            report=report or log,
        ) as joined,
        _opened(
            source, chosen, target, memory, LayerRunner if joined is None else joined.runner
        ) as network,
        # What is refused before anything is measured leaves no empty file.
        Database(records, kit=cycles_version(), when_written=True, adopts=True) as database,
    ):
        found = tune_network(
            network,
            database,
            trials=trials,
            seconds=seconds,
            seed=seed,
            explain=explain,
            samples=_samples(records, network.place.target),
            report=report,
        )
        others = other_machines(Setting(network.place, database))
    return replace(found, machine=network.place.machine, other_machines=tuple(others))


def variant_to_tune(variant: Variant | str | None, target: str | None) -> Variant | None:
    """The variant, or None for this machine's processor or GPU. Raises UserError for any other
    target."""
    chosen = target_variant(variant, target)
    if chosen is None and not is_cpu(target) and target != GPU:
        raise UserError(f"a target to tune must be a variant, cpu or gpu, not {target!r}")
    return chosen


@contextmanager
def _opened(
    model: Path | bytes,
    variant: Variant | None,
    target: str | None,
    memory: AnyMemory,
    make_runner: MakeRunner,
) -> Iterator[TuningTarget]:
    """The network on its target, until the end of the block."""
    if variant is not None:
        yield AcceleratorTuning(model, variant, memory, make_runner=make_runner)
    elif target == GPU:
        from daedal.tuning.gpu import GpuTuning, gpu_to_tune

        yield GpuTuning(model, gpu_to_tune())
    else:
        from daedal.tuning.cpu import CpuTuning
        from daedal.tuning.stopwatch import ChildStopwatch

        with ChildStopwatch() as stopwatch:
            yield CpuTuning(model, stopwatch)


def _samples(records: Path, target: str) -> Path:
    """The file of what models learn from, one for each kind of machine."""
    kind = "" if target == "accelerator" else f".{target}"
    return records.with_name(f"{records.name}{kind}.samples")
