"""Daedal: one hardware variant drives accelerator, simulators, compiler and runtime.

The public names below are resolved on first use, so that `import daedal.isa` loads nothing else.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daedal.api import compile, simulate
    from daedal.artifact.artifact import Artifact
    from daedal.checking.layer_check import check_layers
    from daedal.codesign.compare import compare
    from daedal.codesign.explore import explore
    from daedal.compiler.targets.crossings import HostRates
    from daedal.evaluation import evaluate
    from daedal.host.rates import load_host_rates
    from daedal.inspection import inspect
    from daedal.isa.variant import Variant, load_variant
    from daedal.operator import build_operator
    from daedal.profiling.accelerator import profile
    from daedal.quantization import quantize
    from daedal.synthesis import synth
    from daedal.targets import add_target
    from daedal.tuning.tune import tune

__all__ = [
    "Artifact",
    "HostRates",
    "Variant",
    "add_target",
    "build_operator",
    "check_layers",
    "compare",
    "compile",
    "evaluate",
    "explore",
    "inspect",
    "load_host_rates",
    "load_variant",
    "profile",
    "quantize",
    "simulate",
    "synth",
    "tune",
]

_HOMES = {
    "Artifact": "daedal.artifact.artifact",
    "HostRates": "daedal.compiler.targets.crossings",
    "Variant": "daedal.isa.variant",
    "add_target": "daedal.targets",
    "build_operator": "daedal.operator",
    "check_layers": "daedal.checking.layer_check",
    "compare": "daedal.codesign.compare",
    "compile": "daedal.api",
    "evaluate": "daedal.evaluation",
    "explore": "daedal.codesign.explore",
    "inspect": "daedal.inspection",
    "load_host_rates": "daedal.host.rates",
    "load_variant": "daedal.isa.variant",
    "profile": "daedal.profiling.accelerator",
    "quantize": "daedal.quantization",
    "simulate": "daedal.api",
    "synth": "daedal.synthesis",
    "tune": "daedal.tuning.tune",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'daedal' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
