"""`build_host_code`: a checked ONNX model becomes a `HostCode`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx

from daedal.artifact.host_code import HostCode
from daedal.common.errors import ModelError, ScheduleError, TuningError
from daedal.compiler.cpu.functions import Functions
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.graph.graph import Graph
from daedal.compiler.ops.graph.factors import PAIRS, QUADS, Factors
from daedal.compiler.ops.space import Config
from daedal.native.cache import ObjectCache
from daedal.native.levels import VNNI, host_level

__all__ = ["build_host_code", "level_factors"]


def level_factors(levels: Sequence[str]) -> Factors:
    """How 8-bit integers are multiplied, as fits all `levels` best."""
    return QUADS if all(level.endswith(VNNI) for level in levels) else PAIRS


def build_host_code(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    levels: Sequence[str] = (),
    cache: ObjectCache | None = None,
    checked: bool = False,
    factors: Factors | None = None,
    imported: Graph | None = None,
    configs: Mapping[str, Config] = MappingProxyType({}),
) -> HostCode:
    """Compile a model for processors.

    Parameters
    ----------
    model : checked; a symbolic first dimension of an input is 1.
    shapes : of inputs, where the model leaves them open.
    levels : of `native.levels`; none: that of this processor.
    checked : whether indices are checked at run time, for tests: slow.
    factors : how 8-bit integers are multiplied; None: as fits all `levels` best.
    imported : the model as a graph, where it was made from one: it is not imported then.
    configs : schedules of kernels for the best of `levels`, by the keys of their workloads.

    Raises
    ------
    ModelError
        For a damaged model, for shapes that contradict it, and for formulas that nest too deeply.
    TuningError
        One of `configs` is no schedule of its kernel.
    """
    chosen = tuple(levels) or (host_level(),)
    factors = factors or level_factors(chosen)
    functions = Functions(chosen, cache or ObjectCache(), checked=checked, configs=configs)
    try:
        program = import_model(model, shapes, factors, imported)
        code = program_code(program, functions)
    except RecursionError as error:
        raise ModelError(
            "formulas of compiled code must not nest too deeply, and a node of this model has one "
            "that does; give it fewer operands"
        ) from error
    except ScheduleError as error:
        raise TuningError(
            f"a configuration must build its kernel, and one does not: {error}; tune again"
        ) from error
    return replace(code, objects={level: functions.objects(level) for level in chosen})
