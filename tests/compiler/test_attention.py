"""Networks with attention: every product on the accelerator, the rest on the host, and every layer
equal to the integer reference."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import daedal
from daedal.artifact.artifact import Artifact, HostPart, Launch
from daedal.checking.layer_check import check_layers
from tests.support.quantized_models import quantize_with_onnxruntime
from tests.support.transformers import attention_block, token_feeds

SHARED_FILES = [
    ("vit_mnist/model", 26),
    pytest.param("stories260k/prefill", 46, marks=pytest.mark.slow),
    ("stories260k/decode", 46),
]
"""Trained transformers, and how many products they have."""


def check(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray], num_products: int, outside: int = 0
) -> Artifact:
    """All matrix products but `outside` run on the accelerator, and every layer that has a name in
    the model gives the reference's bytes."""
    data = model.SerializeToString()
    artifact = daedal.compile(data, "vta", host=None)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    places = [x.where for x in artifact.placements if x.op in ("MatMul", "Gemm", "Conv")]
    assert places.count("accelerator") == num_products - outside
    assert places.count("host") == outside
    on_host = _host_operators(artifact)
    assert on_host.count("MatMul") + on_host.count("Gemm") + on_host.count("Conv") == outside
    found = check_layers(artifact, data, inputs)
    assert found.passed, (found.first_difference, found.overwritten)
    compared = {item.tensor for item in found.tensors if item.difference is not None}
    tensors = {name for node in model.graph.node for name in node.output}
    assert compared >= {layer.output for layer in artifact.layers} & tensors
    # What the model does not have goes from launch to launch.
    given = {item.name for launch in artifact.launches for item in launch.outputs}
    read = {item.name for launch in artifact.launches for item in launch.inputs}
    assert given - tensors == read - tensors - {item.name for item in model.graph.input}
    return artifact


def _host_operators(artifact: Artifact) -> list[str]:
    models = [part.model for part in artifact.parts if isinstance(part, HostPart) and part.model]
    return [node.op_type for x in models for node in onnx.ModelProto.FromString(x).graph.node]


def stacked(feeds: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {"x": np.concatenate([feed["x"] for feed in feeds])}


@pytest.mark.parametrize(("tokens", "operators"), [(16, "products"), (48, "products"), (50, "all")])
def test_quantized_by_onnxruntime(
    tokens: int, operators: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    feeds = token_feeds(rng, tokens, 2)
    options = {"op_types_to_quantize": ["MatMul"]} if operators == "products" else {}
    model = quantize_with_onnxruntime(
        attention_block(rng, tokens), tmp_path, feeds, "QDQ", **options
    )
    check(model, stacked(feeds), 5)


@pytest.mark.parametrize(("tokens", "operators"), [(50, "products"), (16, "all")])
def test_quantized_by_hand(tokens: int, operators: str, rng: np.random.Generator) -> None:
    model = attention_block(rng, tokens, operators)
    artifact = check(model, stacked(token_feeds(rng, tokens, 2)), 5)
    # Host and accelerator take turns, and each launch reads what the model has.
    kinds = [type(part) for part in artifact.parts]
    assert kinds == [HostPart, Launch] * len(artifact.launches) + [HostPart]


def test_names_that_passes_would_invent(rng: np.random.Generator) -> None:
    """The model has them for floats that it computes before it quantizes them."""
    model = attention_block(rng, 16, "products")
    makers = {node.output[0]: node for node in model.graph.node}
    readers = {name: node for node in model.graph.node for name in node.input}
    names = {}
    for product in (node for node in model.graph.node if node.op_type == "MatMul"):
        before = makers[makers[product.input[0]].input[0]]
        after = readers[product.output[0]]
        assert before.op_type == after.op_type == "QuantizeLinear"
        names[before.input[0]] = f"{after.output[0]}.operand.blocked"
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del model.graph.value_info[:]
    check(model, stacked(token_feeds(rng, 16, 1)), 5)


def shared_feeds(folder: Path, name: str) -> dict[str, np.ndarray]:
    """One input of a model in ../shared."""
    if name == "decode":
        step = np.load(folder / "decode_step100.npz")
        return {key[3:]: step[key] for key in step if key.startswith("in_")}
    inputs = np.load(folder / "inputs.npz")
    if name == "prefill":
        return {"token_ids": inputs["token_ids"].reshape(1, -1)[:, :64].astype(np.int64)}
    return {"image": inputs["image"][:1]}


@pytest.mark.parametrize(("file", "products"), SHARED_FILES)
def test_trained_transformers(shared: Path, file: str, products: int) -> None:
    path = shared / "models" / f"{file}_qdq.onnx"
    if not path.exists():
        pytest.skip(f"needs {file}_qdq.onnx in ../shared/models, which is not there")
    check(onnx.load(path), shared_feeds(path.parent, path.stem.removesuffix("_qdq")), products)


@pytest.mark.parametrize("tokens", [16, 50])
def test_a_host_that_computes_everything_faster(tokens: int, rng: np.random.Generator) -> None:
    """A product of the model stays on the accelerator, and not only what prepares its operand."""
    model = attention_block(rng, tokens, "products")
    fast = daedal.HostRates(macs_per_cycle=1e6, elements_per_cycle=1e6)
    artifact = daedal.compile(model.SerializeToString(), "vta", host=fast, cpu_levels=())
    (launch,) = artifact.launches
    places = [x.where for x in artifact.placements if x.op == "MatMul"]
    assert places.count("accelerator") == 1, launch.layers
