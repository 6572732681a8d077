"""Cycles of ResNet-18 on a variant, by the cycle model, which counts what the RTL counts.

The whole network of the zoo, one image, memory preset `ddr`. Input: a variant. Output: what
`docs/synthesis.json` keeps; answers lie in `.daedal/cycles`, found by all that they depend on.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import daedal
from bench.zoo.builder import IMAGE
from bench.zoo.images import images
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.isa.errors import UserError, first_line
from daedal.isa.files import make_folder, write_atomically
from daedal.isa.variant import Variant
from daedal.sim.rtl.device import default_cache_dir

__all__ = ["cycles_of", "resnet18_cycles"]

NETWORK = NETWORKS["resnet18"]
IMAGE_SEED = 17
"""Of an image that the network was not calibrated with."""
ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("isa", "native", "compiler", "runtime", "sim/functional", "sim/timing")
PACKAGES = ("numpy", "onnx", "llvmlite")


def resnet18_cycles(form: Variant, report: Callable[[str], None]) -> dict[str, Any]:
    """Cycles of ResNet-18, as `cycles_of` has them."""
    model = quantized(NETWORK, report=report)

    def begin() -> None:
        report(f"{NETWORK.title} on the cycle model")

    feeds = {IMAGE: images(np.random.default_rng(IMAGE_SEED), 1)}
    return cycles_of(model, feeds, form, default_cache_dir().parent / "cycles", begin)


def cycles_of(
    model: bytes,
    feeds: Mapping[str, npt.NDArray[Any]],
    form: Variant,
    folder: Path,
    begin: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Cycles of one run, all launches together; or ``refused``: the sentence that says why not.

    `folder` keeps answers; `begin` is called where there is none yet.
    """
    what = [form.fingerprint, hashlib.sha256(model).hexdigest(), _sources()]
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()
    path = folder / f"{form.name}-{key[:24]}.json"
    if not path.is_file():
        begin()
        make_folder(folder)
        write_atomically(path, json.dumps(_count(model, feeds, form), indent=1) + "\n")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _count(
    model: bytes, feeds: Mapping[str, npt.NDArray[Any]], form: Variant
) -> dict[str, int | str]:
    try:
        artifact = daedal.compile(model, form)
    except UserError as error:
        return {"refused": first_line(error)}
    (profile,) = daedal.simulate(artifact, feeds, device="timing").profiles
    assert profile.cycles is not None
    programs = [launch.program for launch in artifact.launches]
    return {
        "cycles": profile.cycles,
        "launches": len(programs),
        "instructions": sum(len(program.instructions) for program in programs),
    }


@cache
def _sources() -> str:
    """A hash of what compiles and counts, and of the packages that it calls."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(path.read_bytes())
    for package in PACKAGES:
        digest.update(f"{package} {importlib.metadata.version(package)}".encode())
    return digest.hexdigest()
