"""stories260k, token by token: ``python bench/networks/transformers.py --step decode``.

On `attention`, and on `ATTENTION4` with weights of 4 bits.

The decoder of the shared test data keeps its caches on the device (docs/generation.md). With the
published ids fed, its logits are compared with those of the float model, and its layers with the
integer reference. The RTL writes the first tokens of the story.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from rich.console import Console
from rich.markup import escape

import daedal
from daedal.api import code_trust
from daedal.artifact.artifact import Artifact
from daedal.checking.layer_check import check_layers
from daedal.checking.onnxruntime_session import open_session
from daedal.devices import open_device
from daedal.isa.memory_file import AnyMemory
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.decoder import Decoder
from daedal.runtime.executor import Executor
from daedal.runtime.generation import Step, generate
from daedal.runtime.unmarked import without_marks
from daedal.runtime.vocabulary import Vocabulary

__all__ = [
    "ATTENTION4",
    "BARS",
    "Bars",
    "DecodeRow",
    "decode_row",
    "decoder_steps",
    "quantized_decoder",
    "show_decode",
]

Array = npt.NDArray[Any]
Feeds = dict[str, Array]

STATES = {"k_cache_*": "k_new_*", "v_cache_*": "v_new_*"}
STORY_TOKENS = 40
CHECKED_TOKENS = 20
"""Tokens whose layers are compared."""

SAMPLE_STEP = 6
"""One token of so many is a sample: neighbours have nearly the same caches. Weights of 4 bits need
all of them."""

ATTENTION4 = load_variant("attention").replace(
    "attention4",
    narrow_weights=True,
    wgt_bytes=262_144,
    inp_bytes=32_768,
    acc_bytes=65_536,
    out_bytes=16_384,
)
"""`attention` for decoders, with as many bytes of scratchpads: more for weights, of which more stay
on chip between tokens, and less for activations, of which a token has few."""


@dataclass(frozen=True)
class Bars:
    """What must be reached.

    Attributes
    ----------
    cycles : of a token that is not the first, at most.
    agreement : share of the same next tokens, at least.
    perplexity : over that of the float model, at most.
    """

    cycles: int
    agreement: float
    perplexity: float


BARS = {"attention": Bars(40_000, 0.91, 1.05), "attention4": Bars(32_000, 0.88, 1.08)}
"""By variant."""


@dataclass(frozen=True)
class DecodeRow:
    """What was measured of the decoder.

    Attributes
    ----------
    variant : its name.
    launches : for a token.
    share_of_macs : on the accelerator.
    first_cycles : of the first token, by the cycle model; weights that stay on chip are loaded.
    cycles : of every other one.
    rtl_first_cycles, rtl_cycles : of the story's first token on the RTL, and the fewest and the
        most of the others.
    rtl_differs : tokens of the story whose logits are not those of the functional simulator.
    layers_compared, layers_wrong : functional simulator and integer reference.
    tokens : of the published text that were fed.
    perplexity_float, perplexity, agreement : over them; the last is of the likeliest next tokens.
    story : what the RTL wrote.
    """

    variant: str
    launches: int
    share_of_macs: float
    first_cycles: int
    cycles: int
    rtl_first_cycles: int
    rtl_cycles: tuple[int, int]
    rtl_differs: int
    layers_compared: int
    layers_wrong: int
    tokens: int
    perplexity_float: float
    perplexity: float
    agreement: float
    story: str

    @property
    def missed(self) -> list[str]:
        """The bars that are missed."""
        least = BARS[self.variant]
        bars = {
            "one launch": self.launches == 1,
            "all products on the accelerator": self.share_of_macs == 1,
            f"{least.cycles:,} cycles": self.cycles <= least.cycles,
            "cycles of the RTL": self.rtl_cycles == (self.cycles, self.cycles)
            and self.rtl_first_cycles == self.first_cycles,
            "bytes of the RTL": self.rtl_differs == 0,
            "layers": self.layers_compared > 0 and self.layers_wrong == 0,
            "perplexity": self.perplexity <= least.perplexity * self.perplexity_float,
            "same next token": self.agreement >= least.agreement,
        }
        return [name for name, reached in bars.items() if not reached]


def decode_row(models: Path, report: Callable[[str], None], variant: Variant) -> DecodeRow | None:
    """The figures on a variant of `BARS`; None where the data are missing."""
    folder = models / "stories260k"
    if not folder.is_dir():
        return None
    data = np.load(folder / "inputs.npz")
    report("stories260k: quantizing the decoder")
    decoder, artifact, quantized = quantized_decoder(folder, variant)
    report("stories260k: layers of a token")
    ids = data["token_ids"].tolist()
    feeds = [_feeds(decoder, place, ids[place]) for place in range(CHECKED_TOKENS)]
    check = check_layers(artifact, quantized, _joined(feeds))
    report("stories260k: the published text")
    fed = decoder_steps(artifact, "functional", decoder, ids[: len(decoder.tables["mask"])], 1)
    expected = np.load(folder / "outputs.npz")["decode_logits"][: len(fed)].astype(np.float64)
    found, targets = np.array([step.logits for step in fed]), np.array(ids[1 : len(fed) + 1])
    report(f"stories260k: {STORY_TOKENS} tokens on the RTL")
    story = decoder_steps(artifact, "rtl", decoder, ids[:1], STORY_TOKENS)
    same = decoder_steps(artifact, "functional", decoder, ids[:1], STORY_TOKENS)
    rtl_first, *counted = _cycles(story)
    first, cycles = _cycles(decoder_steps(artifact, "timing", decoder, ids[:1], 2))
    macs = [(item.macs or 0, item.where) for item in artifact.placements]
    return DecodeRow(
        variant=variant.name,
        launches=len(artifact.launches),
        share_of_macs=sum(n for n, where in macs if where == "accelerator")
        / sum(n for n, _ in macs),
        first_cycles=first,
        cycles=cycles,
        rtl_first_cycles=rtl_first,
        rtl_cycles=(min(counted), max(counted)),
        rtl_differs=sum(
            one.logits.tobytes() != other.logits.tobytes()
            for one, other in zip(story, same, strict=True)
        ),
        layers_compared=sum(item.difference is not None for item in check.tensors),
        layers_wrong=sum(item.differs for item in check.tensors) + len(check.overwritten),
        tokens=len(fed),
        perplexity_float=_perplexity(expected, targets),
        perplexity=_perplexity(found, targets),
        agreement=float(np.mean(found.argmax(axis=1) == expected.argmax(axis=1))),
        story=_text(decoder, [ids[0], *(step.token for step in story)]),
    )


def show_decode(console: Console, row: DecodeRow) -> None:
    """A few lines, and the story."""
    lines = [
        f"stories260k decode on {row.variant}: {row.launches} launch, {row.cycles:,} cycles a "
        f"token, {row.first_cycles:,} for the first",
        f"multiply-accumulates on the accelerator: {row.share_of_macs:.1%}",
        f"RTL: {row.rtl_cycles[0]:,} to {row.rtl_cycles[1]:,} cycles, {row.rtl_first_cycles:,} for "
        f"the first, {row.rtl_differs} tokens differ",
        f"layers: {row.layers_wrong} of {row.layers_compared} differ from the integer reference",
        f"perplexity of {row.tokens} tokens: {row.perplexity:.4f}, "
        f"float {row.perplexity_float:.4f}",
        f"same next token: {row.agreement:.1%}",
        f"story on the RTL: {row.story}",
        f"missed: {', '.join(row.missed) or 'nothing'}",
    ]
    for line in lines:
        console.print(escape(line))


def quantized_decoder(
    folder: Path, variant: Variant, memory: AnyMemory = "ddr"
) -> tuple[Decoder, Artifact, bytes]:
    """The decoder of this folder, compiled without a cache of code, and its quantized model, whose
    weights have 4 bits where that helps the variant."""
    data = np.load(folder / "inputs.npz")
    decoder, model = _decoder(folder), onnx.load(folder / "decode.onnx")
    texts = [data[f"story_{number}_token_ids"] for number in range(2)]
    narrow = variant.units.narrow_weights
    samples = _samples(model, decoder, texts, 1 if narrow else SAMPLE_STEP)
    weights = "int4" if narrow else "int8"
    quantized = daedal.quantize(model.SerializeToString(), samples, weights=weights)
    artifact = daedal.compile(quantized, variant, states=STATES, memory=memory, cache=False)
    return decoder, artifact, quantized


def _decoder(folder: Path) -> Decoder:
    """Tables and vocabulary. Source: README.md of the test data, "Decode" and "Text"."""
    model = onnx.load(folder / "decode.onnx")
    shapes = {
        item.name: tuple(dim.dim_value for dim in item.type.tensor_type.shape.dim)
        for item in model.graph.input
    }
    places, columns = np.arange(shapes["mask"][-1] - 1), np.arange(shapes["mask"][-1])
    angles = np.outer(places, np.tile(10000.0 ** (-np.arange(4) / 4), 2))
    seen = (columns < places[:, None]) | (columns == columns[-1])
    values = {
        "rope_cos": np.cos(angles),
        "rope_sin": np.sin(angles),
        "mask": np.where(seen, 0, -10000.0),
    }
    tables = {
        name: value.astype(np.float32).reshape(-1, *shapes[name]) for name, value in values.items()
    }
    pieces = json.loads((folder / "pieces.json").read_text("utf-8"))
    vocabulary = Vocabulary(
        tuple(bytes.fromhex(piece["hex"]) for piece in pieces),
        tuple(float(piece["score"]) for piece in pieces),
        begin=1,
    )
    return Decoder(tables, vocabulary, ends=(1, 2))


def _samples(model: onnx.ModelProto, decoder: Decoder, texts: Sequence[Array], step: int) -> Feeds:
    """Inputs of one in `step` steps of the float model through `texts`."""
    run, names = open_session(model, fast=True), [item.name for item in model.graph.output]
    samples: list[Feeds] = []
    for ids in texts:
        caches = _caches(model)
        for position, token in enumerate(ids[: len(decoder.tables["mask"])]):
            feeds = _feeds(decoder, position, int(token))
            if position % step == 0:
                samples.append({**feeds, **{name: item.copy() for name, item in caches.items()}})
            _store(caches, dict(zip(names, run({**feeds, **caches}), strict=True)), position)
    return _joined(samples)


def _feeds(decoder: Decoder, position: int, token: int) -> Feeds:
    """The inputs of one run, without caches."""
    return {"token_ids": np.array([[token]]), **decoder.inputs_at(position)}


def _joined(feeds: Sequence[Feeds]) -> Feeds:
    """Along axis 0."""
    return {name: np.concatenate([item[name] for item in feeds]) for name in feeds[0]}


def _caches(model: onnx.ModelProto) -> Feeds:
    """Empty caches."""
    return {
        item.name: np.zeros(
            [dim.dim_value for dim in item.type.tensor_type.shape.dim], dtype=np.float32
        )
        for item in model.graph.input
        if "cache" in item.name
    }


def _store(caches: Feeds, outputs: Mapping[str, Array], position: int) -> None:
    """Write the new rows into the caches."""
    for name, cache in caches.items():
        cache[:, :, position] = outputs[name.replace("cache", "new")][:, :, 0]


def decoder_steps(
    artifact: Artifact,
    device: str,
    decoder: Decoder,
    prompt: Sequence[int],
    count: int,
    **options: object,
) -> list[Step]:
    """Runs for as many tokens behind `prompt`, on the simulator with this name and `options`."""
    opened = open_device(device, artifact.variant, **options)
    executor = Executor(without_marks(artifact), opened, code_trust())
    return list(generate(executor, decoder, prompt, max_tokens=count))


def _cycles(steps: Sequence[Step]) -> list[int]:
    return [step.profile.cycles or 0 for step in steps]


def _perplexity(logits: Array, targets: Array) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(np.exp(-logs[np.arange(len(targets)), targets].mean()))


def _text(decoder: Decoder, ids: Sequence[int]) -> str:
    assert decoder.vocabulary is not None, "it was just made"
    return decoder.vocabulary.decode(ids)
