"""Networks as PyTorch exports them.

    python bench/networks/exported_networks.py [--only NAME] [--json F]

The architectures of `transformers`, small and with seeded weights, go through PyTorch's exporter,
`daedal quantize`, `daedal compile` and the cycle model (preset `ddr`). What is measured is whether
exported graphs run whole: launches, the share of the multiply-accumulates on the machine, layers
that differ from the integer reference, and how close the result is to the float model. The
exporters' models have no trained weights, so accuracy is `bench/networks/transformers.py`'s.

Needs the extra `exporters`. Exit status 1 where a layer differs, or a network that is to take one
launch takes more.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from daedal.checking.integer_reference import run_onnxruntime
from daedal.checking.layer_check import check_layers
from daedal.common.files import write_atomically

Array = npt.NDArray[Any]

TOKENS, WORDS, SAMPLES = 64, 500, 4
_SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_GROUPED = _SIZES | {"num_key_value_heads": 2}
_PAIRS = {
    "vocab_size": WORDS,
    "n_positions": TOKENS,
    "n_embd": 128,
    "n_layer": 2,
    "n_head": 4,
    "rotary_dim": 16,
}


@dataclass(frozen=True)
class Source:
    """A network: classes of `transformers`, its configuration, and the shape of its input.

    `shape` is that of an image, or None for token ids. `part` is what of the model runs.
    """

    config: str
    model: str
    options: Mapping[str, Any]
    shape: tuple[int, ...] | None = None
    part: str = ""
    launches: int = 1


_IMAGE = (1, 3, 64, 64)
_PATCHES = {"image_size": 64, "patch_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
_VIT = _PATCHES | {"hidden_size": 128, "intermediate_size": 512}

SOURCES: dict[str, Source] = {
    "BERT": Source("BertConfig", "BertModel", _SIZES),
    "GPT-2": Source(
        "GPT2Config",
        "GPT2LMHeadModel",
        {"vocab_size": WORDS, "n_positions": TOKENS, "n_embd": 128, "n_layer": 2, "n_head": 4},
    ),
    "OPT": Source(
        "OPTConfig",
        "OPTForCausalLM",
        _SIZES | {"ffn_dim": 512, "word_embed_proj_dim": 128, "max_position_embeddings": 128},
    ),
    "GPT-NeoX": Source("GPTNeoXConfig", "GPTNeoXForCausalLM", _SIZES),
    "Llama": Source("LlamaConfig", "LlamaForCausalLM", _GROUPED),
    "Qwen 2": Source("Qwen2Config", "Qwen2ForCausalLM", _GROUPED),
    "Qwen 3": Source("Qwen3Config", "Qwen3ForCausalLM", _GROUPED | {"head_dim": 32}),
    "Gemma": Source("GemmaConfig", "GemmaForCausalLM", _GROUPED | {"head_dim": 32}),
    "Mistral": Source("MistralConfig", "MistralForCausalLM", _GROUPED),
    "Phi": Source("PhiConfig", "PhiForCausalLM", _SIZES),
    "Falcon": Source("FalconConfig", "FalconForCausalLM", _SIZES),
    "OLMo 2": Source("Olmo2Config", "Olmo2ForCausalLM", _GROUPED),
    "GPT-J": Source("GPTJConfig", "GPTJForCausalLM", _PAIRS),
    "CodeGen": Source("CodeGenConfig", "CodeGenForCausalLM", _PAIRS | {"n_ctx": TOKENS}),
    "RoFormer": Source("RoFormerConfig", "RoFormerModel", _SIZES | {"embedding_size": 128}),
    "T5 encoder": Source(
        "T5Config",
        "T5EncoderModel",
        {
            "vocab_size": WORDS,
            "d_model": 128,
            "d_kv": 32,
            "d_ff": 256,
            "num_layers": 2,
            "num_heads": 4,
        },
    ),
    "Whisper encoder": Source(
        "WhisperConfig",
        "WhisperModel",
        {
            "d_model": 128,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 512,
            "decoder_attention_heads": 4,
            "max_source_positions": TOKENS,
            "num_mel_bins": 80,
        },
        (1, 80, 2 * TOKENS),
        "encoder",
    ),
    "ViT": Source("ViTConfig", "ViTModel", _VIT, _IMAGE),
    "CLIP, vision": Source("CLIPVisionConfig", "CLIPVisionModel", _VIT, _IMAGE),
    "BEiT": Source("BeitConfig", "BeitModel", _VIT | {"use_relative_position_bias": True}, _IMAGE),
    "DINOv2": Source("Dinov2Config", "Dinov2Model", _VIT, _IMAGE),
    "Swin": Source(
        "SwinConfig",
        "SwinModel",
        {
            "image_size": 64,
            "embed_dim": 48,
            "depths": [2, 2],
            "num_heads": [3, 6],
            "window_size": 4,
        },
        _IMAGE,
    ),
    "ConvNeXt": Source(
        "ConvNextConfig",
        "ConvNextModel",
        {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 2, 1]},
        _IMAGE,
    ),
    "SegFormer": Source(
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [16, 32, 64, 128],
            "num_attention_heads": [1, 2, 4, 8],
            "decoder_hidden_size": 64,
        },
        _IMAGE,
        launches=2,  # the decoder's bilinear Resize is the host's
    ),
}


@dataclass(frozen=True)
class Row:
    """What was measured of one network; `cosine` of the first output with the float model's."""

    network: str
    launches: int
    macs_on_accelerator: float
    cycles: int
    cosine: float
    layers_compared: int
    layers_wrong: int
    most_launches: int

    @property
    def missed(self) -> bool:
        """Whether a layer is wrong, or there are too many launches."""
        return self.layers_wrong > 0 or self.launches > self.most_launches


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--variant", default="attention")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            print(name, file=sys.stderr, flush=True)
            path = Path(folder) / "model.onnx"
            rows.append(measured(name, exported(SOURCES[name], path), path, options.variant))
            if options.json is not None:
                text = json.dumps([asdict(row) for row in rows], indent=1)
                write_atomically(options.json, text + "\n")
    show(rows)
    return int(any(row.missed for row in rows))


def exported(source: Source, path: Path) -> dict[str, Array]:
    """Write the model; some inputs, along axis 0."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, source.model)(
        getattr(transformers, source.config)(**source.options)
    )
    model = getattr(model, source.part) if source.part else model

    class First(torch.nn.Module):  # type: ignore[misc, name-defined]
        """The first output, without caches."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(x, return_dict=False)[0]

    rng = np.random.default_rng(0)
    if source.shape is None:
        data = rng.integers(0, WORDS, (SAMPLES, TOKENS))
    else:
        data = rng.normal(size=(SAMPLES, *source.shape[1:])).astype(np.float32)
    with torch.no_grad():
        torch.onnx.export(
            First().eval(),
            (torch.from_numpy(data[:1]),),
            str(path),
            dynamo=True,
            input_names=["x"],
            output_names=["y"],
            verbose=False,
        )
    return {"x": data}


def measured(name: str, samples: Mapping[str, Array], path: Path, variant: str) -> Row:
    """Quantize, compile, run and compare."""
    quantized = daedal.quantize(path, samples)
    artifact = daedal.compile(quantized, variant)
    feeds = {key: value[:1] for key, value in samples.items()}
    run = daedal.simulate(artifact, feeds, device="timing")
    check = check_layers(artifact, quantized, feeds)
    (found, *_), (wanted, *_) = run.outputs.values(), run_onnxruntime(onnx.load(path), feeds)
    macs = Counter[str]()
    for item in artifact.placements:
        macs[item.where] += item.macs or 0
    return Row(
        name,
        launches=len(artifact.launches),
        macs_on_accelerator=macs["accelerator"] / macs.total(),
        cycles=sum(profile.cycles for profile in run.profiles),
        cosine=cosine(found, wanted),
        layers_compared=sum(item.difference is not None for item in check.tensors),
        layers_wrong=sum(item.differs for item in check.tensors) + len(check.overwritten),
        most_launches=SOURCES[name].launches,
    )


def cosine(a: Array, b: Array) -> float:
    """The cosine of the angle between two tensors."""
    first, second = (np.asarray(item, dtype=np.float64).ravel() for item in (a, b))
    return float(first @ second / np.sqrt(first @ first * (second @ second)))


def show(rows: list[Row]) -> None:
    """One line for each network."""
    table = Table("network", "launches", "MACs", "cycles", "cosine", "wrong layers")
    for row in rows:
        table.add_row(
            row.network,
            str(row.launches),
            f"{row.macs_on_accelerator:.1%}",
            f"{row.cycles:,}",
            f"{row.cosine:.4f}",
            f"{row.layers_wrong} of {row.layers_compared}",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    sys.exit(main())
