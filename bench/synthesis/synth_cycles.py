"""Cycles of ResNet-18 on a variant, by the cycle model, which counts what the RTL counts.

The whole network of the zoo, one image, memory preset `ddr`. Input: a variant. Output: what
`docs/synthesis.json` records; results are kept in `.daedal/cycles`.
"""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import daedal
from bench.figures import figures_of
from bench.kept import CYCLES, kept, sources_digest
from bench.zoo.builder import IMAGE
from bench.zoo.images import images
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.common.errors import UserError, first_line
from daedal.isa.variant import Variant

__all__ = ["COMPILED_BY", "PACKAGES", "cycles_of", "resnet18_cycles"]

NETWORK = NETWORKS["resnet18"]
IMAGE_SEED = 17
"""Of an image that the network was not calibrated with."""
COMPILED_BY = ("artifact", "common", "isa", "native", "compiler", "runtime")
"""Sources on which a program depends."""
COUNTED_BY = ("sim/functional", "sim/timing")
PACKAGES = ("numpy", "onnx", "llvmlite")


def resnet18_cycles(form: Variant, report: Callable[[str], None]) -> dict[str, Any]:
    """Cycles of ResNet-18, as `cycles_of` has them."""
    model = quantized(NETWORK, report=report)

    def begin() -> None:
        report(f"{NETWORK.title} on the cycle model")

    feeds = {IMAGE: images(np.random.default_rng(IMAGE_SEED), 1)}
    return cycles_of(model, feeds, form, CYCLES, begin)


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

    def count() -> dict[str, Any]:
        begin()
        return _count(model, feeds, form)

    sources = sources_digest(COMPILED_BY + COUNTED_BY, PACKAGES)
    parts = [form.fingerprint, hashlib.sha256(model).hexdigest(), sources]
    return kept(folder, form.name, parts, count)


def _count(
    model: bytes, feeds: Mapping[str, npt.NDArray[Any]], form: Variant
) -> dict[str, int | str]:
    try:
        artifact = daedal.compile(model, form)
    except UserError as error:
        return {"refused": first_line(error)}
    figures = figures_of(launch.program for launch in artifact.launches)
    return {
        "cycles": figures.cycles,
        "launches": figures.launches,
        "instructions": figures.instructions,
    }
