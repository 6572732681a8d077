"""Entries of the ledger of cycles: every network and layer, on the variants that it is quoted for.

Each entry compiles its program without any cache of code, and counts (`bench.figures`). Models are
made from seeds where possible; those of trained networks need the shared test data or a package.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import daedal
from bench.conv_layers import LAYERS, LayerProgram
from bench.depthwise_layers import LAYERS as DEPTHWISE_LAYERS
from bench.depthwise_layers import depthwise_model
from bench.figures import Figures, bytes_moved, figures_of
from bench.resnet18 import stem
from bench.transformer_decode import decoder_steps, quantized_decoder
from bench.transformer_models import MODELS
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.isa.variant import Variant, load_variant

__all__ = ["ENTRIES", "Entry", "MissingModel"]

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "models"
VIT_SAMPLES = 16
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"

RESNET8 = "mlperf_tiny_resnet8/model_qdq.onnx"
RESNET20 = "resnet20_cifar10/model_qdq.onnx"

QUICK = ("resnet18.vta",)
"""Networks that every run of the tests compiles; other networks take too long for that."""


class MissingModel(Exception):
    """A model is not on this machine; the text says what it needs."""


@dataclass(frozen=True)
class Entry:
    """A network or layer on a variant; `count` compiles it and raises MissingModel.

    `slow` entries take too long for every run of the tests; others may use `heavy_s` seconds of CPU
    time, if they need more than one.
    """

    name: str
    variant: str
    count: Callable[[Variant], Figures]
    slow: bool = False
    heavy_s: int = 0

    @property
    def key(self) -> str:
        """As the ledger has it."""
        return f"{self.name}.{self.variant}"

    def figures(self) -> Figures:
        """Those of a program that is compiled now."""
        return self.count(load_variant(self.variant))


def _compiled(model: bytes | Path, variant: Variant) -> Figures:
    artifact = daedal.compile(model, variant, cache=False)
    return figures_of(launch.program for launch in artifact.launches)


def _network(name: str, variant: Variant) -> Figures:
    return _compiled(quantized(NETWORKS[name]), variant)


def _convolution(number: int, variant: Variant) -> Figures:
    return figures_of([LayerProgram(LAYERS[number], variant).program])


def _stem(variant: Variant) -> Figures:
    return _compiled(stem(np.random.default_rng(1)).SerializeToString(), variant)


def _depthwise(number: int, variant: Variant) -> Figures:
    model, _ = depthwise_model(DEPTHWISE_LAYERS[number])
    return _compiled(model.SerializeToString(), variant)


def _shared(path: str, variant: Variant) -> Figures:
    folder, _, file = path.partition("/")
    return _compiled(_folder(folder) / file, variant)


def _folder(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        raise MissingModel(f"needs ../shared/models/{name}")
    return folder


def _vit(variant: Variant) -> Figures:
    """Calibrated with noise: scales change no cycles, and digits would need a package."""
    noise = np.random.default_rng(1).normal(size=(VIT_SAMPLES, 1, 28, 28)).astype(np.float32)
    return _compiled(daedal.quantize(_folder("vit_mnist") / "model.onnx", noise), variant)


def _prefill(variant: Variant) -> Figures:
    _folder("stories260k")
    found = MODELS["stories260k"](SHARED)
    assert found is not None, "its folder is there"
    return _compiled(found.quantized, variant)


def _decode(variant: Variant) -> Figures:
    """Of a token after the first: weights that stay on chip are there."""
    decoder, artifact, _ = quantized_decoder(_folder("stories260k"), variant)
    _, step = decoder_steps(artifact, "timing", decoder, [1], 2)
    programs = [launch.program for launch in artifact.launches]
    return Figures(
        cycles=step.profile.cycles or 0,
        launches=len(programs),
        instructions=sum(len(program.instructions) for program in programs),
        bytes_moved=bytes_moved(step.profile, programs[0]),
    )


_VARIANTS = {"resnet18": ("vta", "ecp5")}
"""Of the zoo's networks; see docs/hardware.md and docs/tuning.md."""


def _all() -> Iterator[Entry]:
    yield Entry("C1", "vta", _stem, heavy_s=4)
    for number, layer in enumerate(LAYERS):
        yield Entry(layer.name, "vta", partial(_convolution, number), heavy_s=4)
    for number, depthwise in enumerate(DEPTHWISE_LAYERS):
        yield Entry(depthwise.name, "vta", partial(_depthwise, number))
    yield Entry("digits", "vta", lambda variant: _compiled(DIGITS, variant), heavy_s=3)
    yield Entry("resnet8", "vta", partial(_shared, RESNET8), heavy_s=6)
    yield Entry("resnet20", "vta", partial(_shared, RESNET20), heavy_s=8)
    for name, variants in _VARIANTS.items():
        for variant in variants:
            slow = f"{name}.{variant}" not in QUICK
            yield Entry(name, variant, partial(_network, name), slow, heavy_s=0 if slow else 60)
    yield Entry("vit_mnist", "attention", _vit, slow=True)
    yield Entry("stories260k", "attention", _prefill, slow=True)
    yield Entry("stories260k_decode", "attention", _decode, slow=True)


ENTRIES = {entry.key: entry for entry in _all()}
"""By key, in the order of the ledger."""
