"""`build_host_code`: a checked ONNX model becomes a `HostCode`; `build_host_codes`: one for each
layout that levels of processors want."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx

from daedal.artifact.host_code import HostCode
from daedal.compiler.collection import without_collection
from daedal.compiler.cpu.errors import compile_errors
from daedal.compiler.cpu.functions import Functions, level_registers
from daedal.compiler.cpu.importer import ImportedModel, import_model
from daedal.compiler.cpu.memory import StoredValues
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.graph.graph import Graph
from daedal.compiler.ops.cpu.reuse import Registers
from daedal.compiler.ops.graph.factors import PAIRS, PAIRS_OR_REALS, QUADS, TILES, Factors
from daedal.compiler.ops.space import Config
from daedal.native.cache import ObjectCache
from daedal.native.levels import (
    AMX_LEVEL,
    LEVELS,
    VNNI_LEVEL,
    adds_quads,
    host_level,
    plain_level,
)
from daedal.native.object_compiler import ObjectCompiler

__all__ = ["build_host_code", "build_host_codes", "level_factors"]


def level_factors(levels: Sequence[str]) -> Factors:
    """How 8-bit integers are multiplied, as fits all `levels` best."""
    if all(map(adds_quads, levels)):
        return TILES if all(level == AMX_LEVEL for level in levels) else QUADS
    return PAIRS_OR_REALS if all(level == "x86-64-v4" for level in levels) else PAIRS


@without_collection
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
    registers: Registers | None = None,
) -> HostCode:
    """Compile a model for processors: code with one layout of its tensors.

    Parameters
    ----------
    model : checked; a symbolic first dimension of an input is 1.
    shapes : of inputs, where the model leaves them open.
    levels : of `native.levels`, whose code has the schedules of the narrowest registers; none: that
        of this processor.
    checked : whether indices are checked at run time, for tests: slow.
    factors : how 8-bit integers are multiplied; None: as fits all `levels` best.
    imported : the model as a graph, where it was made from one: it is not imported then.
    configs : schedules of kernels, by the keys of their workloads.
    registers : that schedules are for; None: the narrowest of `levels`. Operations on tile
        registers are emulated where a level has none.

    Raises
    ------
    ModelError
        For a damaged model, for shapes that contradict it, and for formulas that nest too deeply.
    TuningError
        One of `configs` is no schedule of its kernel.
    """
    chosen = tuple(levels) or (host_level(),)
    functions = Functions(
        chosen, cache or ObjectCache(), checked=checked, configs=configs, registers=registers
    )
    with compile_errors():
        program = import_model(model, shapes, factors or level_factors(chosen), imported)
        code = program_code(program, functions)
    return replace(code, objects={level: functions.objects(level) for level in chosen})


@without_collection
def build_host_codes(
    model: onnx.ModelProto,
    levels: Sequence[str],
    *,
    cache: ObjectCache | None = None,
    imported: Graph | None = None,
    configs: Mapping[str, Config] = MappingProxyType({}),
) -> tuple[HostCode, ...]:
    """Compile a model for several levels of processors, each with the layouts and schedules that it
    is fastest with: one code for all that have the same.

    `configs` are for the best of the levels. A level with VNNI or AMX is left out if its code would
    be that of the same level without, which is there, too. Other parameters, and what is raised,
    are those of `build_host_code`.
    """
    cache, stored = cache or ObjectCache(), StoredValues()
    levels = [level for level in reversed(LEVELS) if level in levels]  # the same in any order
    with compile_errors():
        source = ImportedModel(model, imported=imported)
        if not source.multiplies_integers:
            families = [plain_level(level) for level in levels]
            levels = [level for n, level in enumerate(levels) if families[n] not in families[:n]]
        groups: dict[tuple[Factors, Registers], list[str]] = {}
        for level in levels:
            factors = level_factors([level]) if source.multiplies_integers else PAIRS
            groups.setdefault((factors, level_registers(level)), []).append(level)
        programs = {factors: source.program(factors) for factors in {item for item, _ in groups}}
        texts = sum(
            len(programs[factors].steps) * len(group) for (factors, _), group in groups.items()
        )
        with ObjectCompiler(cache, expected=texts) as compiler:
            made = list[tuple[HostCode, Functions, Sequence[str]]]()
            for (factors, _), group in groups.items():
                own = configs if levels[-1] in group else {}
                functions = Functions(group, cache, checked=False, configs=own, compiler=compiler)
                made.append((program_code(programs[factors], functions, stored), functions, group))
            if VNNI_LEVEL in levels and not configs:
                made = [item for item in made if item[2] != [AMX_LEVEL] or item[1].uses_tiles]
            return tuple(
                replace(code, objects={level: functions.objects(level) for level in group})
                for code, functions, group in made
            )
