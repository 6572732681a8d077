"""Compiles the networks and layers of the ledger for a machine and counts their cycles.

Input: a machine. Output: `Figures`. Models are made from seeds where possible; those of trained
networks need the shared test data, and raise MissingModel where it is not there.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

import daedal
from bench.figures import (
    DDR,
    Figures,
    bytes_moved,
    figures_of,
    figures_on_board,
    launched,
    with_units,
)
from bench.networks.conv_layers import LAYERS, LayerProgram
from bench.networks.depthwise_layers import LAYERS as DEPTHWISE_LAYERS
from bench.networks.depthwise_layers import depthwise_model
from bench.networks.keywords import COEFFICIENTS, KWT1, keyword_transformer
from bench.networks.keywords import TOKENS as COLUMNS
from bench.networks.minilm import TOKENS, WORDS, minilm_of_random_weights
from bench.networks.network_memory import workspace_bytes
from bench.networks.resnet18 import stem
from bench.networks.starvation import fed_and_starved
from bench.networks.transformer_cycles import exposed_cycles
from bench.networks.transformer_decode import decoder_steps, quantized_decoder
from bench.networks.transformer_models import MODELS
from bench.networks.unit_streams import unit_streams
from bench.networks.units import stream_cycles
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.artifact.artifact import Artifact
from daedal.isa.memory_model import MemoryModel
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.variant import Variant
from daedal.runtime.decoder import Decoder
from daedal.runtime.layers import layer_cycles

__all__ = [
    "MissingModel",
    "convolution",
    "decode_on_board",
    "decode_step",
    "depthwise",
    "digits",
    "keywords",
    "keywords_model",
    "minilm",
    "on_board",
    "prefill",
    "resnet18_stem",
    "shared_folder",
    "shared_model",
    "unit_stream",
    "vit",
    "vit_model",
    "zoo_network",
]

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"
VIT_SAMPLES = KEYWORD_SAMPLES = 16
MINILM_LENGTHS = (128, 100, 60, 9)
"""Tokens of the samples."""


class MissingModel(Exception):
    """A model is not on this machine; the text says what it needs."""


def zoo_network(name: str, variant: Variant) -> Figures:
    """A network of `bench.zoo`."""
    artifact = _compiled(quantized(NETWORKS[name]), variant)
    memory = sum(workspace_bytes(launch.program) for launch in artifact.launches)
    return replace(_counted(artifact), memory_bytes=memory)


def on_board(
    name: str, timing: MemoryModel, variant: Variant, tiles_for: MemoryModel | None = None
) -> Figures:
    """A network of `bench.zoo`, or ``vit_mnist``, with a board's memory, or with the tiles of
    another one."""
    artifact = _compiled_once(name, variant, tiles_for or timing)
    return figures_on_board(_programs(artifact), timing)


def convolution(number: int, variant: Variant) -> Figures:
    """C2 to C11."""
    return figures_of([LayerProgram(LAYERS[number], variant).program])


def resnet18_stem(variant: Variant) -> Figures:
    """C1."""
    return _counted(_compiled(stem(np.random.default_rng(1)).SerializeToString(), variant))


def depthwise(number: int, variant: Variant) -> Figures:
    """D1 to D9."""
    model, _ = depthwise_model(DEPTHWISE_LAYERS[number])
    return _counted(_compiled(model.SerializeToString(), variant))


def digits(variant: Variant) -> Figures:
    """The digits network."""
    return _with_starved(_compiled(DIGITS, variant))


def shared_model(path: str, variant: Variant) -> Figures:
    """A quantized model of the shared test data."""
    folder, _, file = path.partition("/")
    return _with_starved(_compiled(shared_folder(folder) / file, variant))


def unit_stream(name: str, variant: Variant) -> Figures:
    """A stream of instructions that one unit limits: its measured window."""
    (stream,) = (item for item in unit_streams(variant) if item.name == name)
    profile = launched(stream.program)
    return replace(figures_of([stream.program]), cycles=stream_cycles(stream, profile))


def vit(variant: Variant, timing: MemoryModel = DDR) -> Figures:
    """The vision transformer of the shared test data."""
    return _of_transformer(_compiled(vit_model(), variant, timing), timing)


def vit_model() -> bytes:
    """Calibrated with noise: scales change no cycles, and digits would need a package."""
    noise = np.random.default_rng(1).normal(size=(VIT_SAMPLES, 1, 28, 28)).astype(np.float32)
    return daedal.quantize(shared_folder("vit_mnist") / "model.onnx", noise)


def prefill(variant: Variant) -> Figures:
    """64 tokens of stories260k."""
    shared_folder("stories260k")
    found = MODELS["stories260k"](SHARED)
    assert found is not None, "its folder is there"
    return _of_transformer(_compiled(found.quantized, variant))


def decode_step(number: int, variant: Variant) -> Figures:
    """A token of stories260k: the first, 0, loads the weights that stay on chip for the others."""
    return _decode(number, DDR, variant)[0]


def decode_on_board(timing: MemoryModel, variant: Variant) -> Figures:
    """A token of stories260k that is not the first, with a board's memory."""
    figures, profile = _decode(1, timing, variant)
    return with_units(figures, [profile])


def _decode(number: int, timing: MemoryModel, variant: Variant) -> tuple[Figures, Profile]:
    decoder, artifact, _ = _decoder_once(variant, timing)
    profile = decoder_steps(artifact, "timing", decoder, [1], 2, timing=timing)[number].profile
    programs = _programs(artifact)
    figures = Figures(
        cycles=profile.cycles or 0,
        launches=len(programs),
        instructions=sum(len(program.instructions) for program in programs),
        bytes_moved=bytes_moved(profile, programs[0]),
    )
    return figures, profile


@lru_cache(maxsize=1)
def _decoder_once(variant: Variant, timing: MemoryModel) -> tuple[Decoder, Artifact, bytes]:
    """For entries in a row that have the same program."""
    return quantized_decoder(shared_folder("stories260k"), variant, timing)


def keywords(variant: Variant) -> Figures:
    """KWT-1, a keyword transformer, with random weights."""
    return _of_transformer(_compiled(keywords_model(), variant))


def keywords_model() -> bytes:
    """It, calibrated with noise."""
    rng = np.random.default_rng(1)
    model = keyword_transformer(rng, KWT1).SerializeToString()
    noise = rng.normal(size=(KEYWORD_SAMPLES, COLUMNS, COEFFICIENTS))
    return daedal.quantize(model, noise.astype(np.float32))


def minilm(variant: Variant) -> Figures:
    """MiniLM-L6 with random weights: the trained ones would need a package, and take as long."""
    rng = np.random.default_rng(1)
    model = minilm_of_random_weights(rng).SerializeToString()
    lengths = np.array(MINILM_LENGTHS)[:, None]
    samples = {
        "input_ids": rng.integers(0, WORDS, (len(MINILM_LENGTHS), TOKENS)),
        "attention_mask": (np.arange(TOKENS) < lengths).astype(np.float32),
    }
    return _of_transformer(_compiled(daedal.quantize(model, samples), variant))


def shared_folder(name: str) -> Path:
    """A folder of the shared test data. Raises MissingModel where it is not there."""
    folder = SHARED / name
    if not folder.is_dir():
        raise MissingModel(f"needs ../shared/models/{name}")
    return folder


def _programs(artifact: Artifact) -> list[Program]:
    return [launch.program for launch in artifact.launches]


@lru_cache(maxsize=1)
def _compiled_once(name: str, variant: Variant, timing: MemoryModel) -> Artifact:
    """For entries in a row that have the same programs."""
    model = quantized(NETWORKS[name]) if name in NETWORKS else vit_model()
    return _compiled(model, variant, timing)


def _compiled(model: bytes | Path, variant: Variant, timing: MemoryModel = DDR) -> Artifact:
    return daedal.compile(model, variant, memory=timing, cache=False)


def _counted(artifact: Artifact, timing: MemoryModel = DDR) -> Figures:
    return figures_of((launch.program for launch in artifact.launches), timing)


def _with_starved(artifact: Artifact) -> Figures:
    """Machines without counters leave no marks to count it by."""
    figures = _counted(artifact)
    if not artifact.variant.units.counters:
        return figures
    profiles = [launched(launch.program) for launch in artifact.launches]
    starved = sum(idle for profile in profiles for _, _, idle in fed_and_starved(profile))
    return replace(figures, starved=starved)


def _of_transformer(artifact: Artifact, timing: MemoryModel = DDR) -> Figures:
    """`exposed` where the whole network is one launch."""
    figures = replace(
        _counted(artifact, timing),
        macs=sum(item.macs or 0 for item in artifact.placements if item.where == "accelerator"),
        computed_macs=sum(layer.needed_macs for layer in artifact.layers),
    )
    if figures.launches > 1:
        return figures
    (launch,) = artifact.launches
    windows = layer_cycles(launched(launch.program, timing).marks)
    peak = artifact.variant.macs_per_cycle
    return replace(figures, exposed=exposed_cycles(windows, launch.layers, peak))
