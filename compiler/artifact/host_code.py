"""`compile_host_model`: the ONNX model of a host's part as machine code, for several levels.

Input: a serialized model, as `compiler.frontend.host_model` makes it. Output: `HostCode`s, none
where the part must be interpreted.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import onnx

from daedal.artifact.code import code_digests
from daedal.artifact.host_code import HostCode
from daedal.artifact.object_file import read_symbols
from daedal.common.errors import TuningError, UserError
from daedal.compiler.cpu.build import build_host_codes
from daedal.compiler.graph.graph import Graph
from daedal.compiler.ops.space import Config
from daedal.native.cache import ObjectCache
from daedal.native.levels import LEVELS, level_to_run
from daedal.native.own_code import OwnCode

__all__ = ["PORTABLE_LEVELS", "best_levels", "compile_host_model", "linked", "saved_levels"]

PORTABLE_LEVELS = tuple(level for level in reversed(LEVELS) if level.startswith("x86-64"))
"""Levels that every saved artifact has: all of x86-64."""

_LIBRARY_PREFIX = "__"
"""Begins the names of functions that compilers keep in libraries of their own, for what a processor
lacks. A process need not have them."""


def best_levels() -> tuple[str, ...]:
    """The best level of this processor; none where LLVM has no level for it."""
    level = level_to_run(LEVELS)
    return () if level is None else (level,)


def saved_levels() -> tuple[str, ...]:
    """The levels of an artifact that is written to a file: the portable ones, and the best here.

    `build_host_codes` leaves out those whose code would be that of others.
    """
    return tuple(dict.fromkeys((*PORTABLE_LEVELS, *best_levels())))


def compile_host_model(
    serialized: bytes,
    levels: Sequence[str],
    report: Callable[[str], None] | None = None,
    cache: ObjectCache | None = None,
    imported: Graph | None = None,
    configs: Mapping[str, Config] = MappingProxyType({}),
) -> tuple[HostCode, ...]:
    """Compile a model, and record that this machine made the code (`OwnCode`): a code for each
    layout of tensors that the levels want.

    `imported` is the model as a graph, where it was made from one, and `configs` are schedules of
    kernels for the best of `levels`. Object code is kept in `cache`,
    by default the user's. A level that lacks what a kernel needs is left out, with a sentence to
    `report`. Nothing without a model or levels, and where every level is left out.

    Raises TuningError for a configuration that is no schedule of its kernel.
    """
    if not serialized or not levels:
        return ()
    try:
        model = onnx.ModelProto.FromString(serialized)
        built = build_host_codes(model, levels, cache=cache, imported=imported, configs=configs)
    except TuningError:
        raise  # another schedule than the one that was asked for would be no answer
    except UserError:
        return ()
    known = [dataclasses.replace(code, objects=linked(code.objects, report)) for code in built]
    codes = tuple(code for code in known if code.objects)
    for digest in code_digests(serialized, codes).values():
        OwnCode().add(digest)
    return codes


def linked(
    objects: Mapping[str, tuple[bytes, ...]], report: Callable[[str], None] | None = None
) -> dict[str, tuple[bytes, ...]]:
    """The object code of those levels that lack nothing; `report` gets a sentence on others."""
    missing = {level: _missing(files) for level, files in objects.items()}
    for level, names in missing.items():
        if names and report is not None:
            report(f"level {level} is left out: it lacks {', '.join(names)}")
    return {level: objects[level] for level, names in missing.items() if not names}


def _missing(files: Sequence[bytes]) -> list[str]:
    """Functions that object files need and that a process may lack."""
    names = {name for data in files for name in read_symbols(data).undefined}
    return sorted(name for name in names if name.startswith(_LIBRARY_PREFIX))
