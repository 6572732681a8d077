"""`recorded_schedules`: the schedules that a database of `daedal tune` has for a model."""

from collections.abc import Mapping
from pathlib import Path

from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.version import cycles_version
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant
from daedal.tuning.accelerator import recorded_configs, variant_place
from daedal.tuning.selection import check_recorded
from daedal.tuning.target import Place, Setting

__all__ = ["recorded_schedules"]


def recorded_schedules(
    records: str | Path,
    model: Path | bytes,
    variant: Variant | None,
    memory: MemoryModel,
    *,
    is_gpu: bool = False,
) -> Mapping[str, Config]:
    """The best recorded configurations by the keys of their workloads, as `daedal.compile` takes
    them: of `variant` with `memory`, or of this machine's GPU or processor.

    Raises
    ------
    TuningError
        `records` is no database with records of this place.
    """
    path = Path(records)
    if not path.is_file():
        raise TuningError(
            f"records must be a database that `daedal tune` made, and {str(path)!r} is none"
        )
    place = _place(variant, memory, is_gpu=is_gpu)
    with Database(path, kit=cycles_version()) as database:
        setting = Setting(place, database)
        check_recorded(setting, path)
        if variant is not None:
            return recorded_configs(database, variant, memory, model)
        from daedal.tuning.kernels import recorded_kernels

        return recorded_kernels(setting, model)


def _place(variant: Variant | None, memory: MemoryModel, *, is_gpu: bool) -> Place:
    if variant is not None:
        return variant_place(variant, memory)
    if is_gpu:
        from daedal.tuning.gpu import gpu_place, gpu_to_tune

        return gpu_place(gpu_to_tune())
    from daedal.tuning.cpu import processor_place

    return processor_place()
