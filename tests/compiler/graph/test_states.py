"""Caches of a decoder as states: every token's logits are those of the integer reference, whose
caches its caller writes; and what cannot be a state is refused."""

from functools import cache

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import processor_graph
from daedal.checking.layer_check import check_layers
from daedal.common.errors import ModelError, UserError
from daedal.compiler.graph import Graph, GraphBuilder, TensorType, run
from daedal.compiler.graph.states import bind_states, match_states
from daedal.devices import open_device
from daedal.isa.variant import load_variant
from daedal.runtime.decoder import Decoder
from daedal.runtime.executor import Executor
from daedal.runtime.generation import generate
from tests.support.decoders import SmallDecoder, feed_caches

STATES = {"k_cache_*": "k_new_*", "v_cache_*": "v_new_*"}
VARIANT = load_variant("attention")

GROUPED = SmallDecoder()
DECODERS = {
    "grouped queries, two heads a block": GROUPED,
    "a head a block": SmallDecoder(heads=2, kv_heads=2, width=16, rotary=False, layers=1),
    "heads of two blocks": SmallDecoder(heads=2, kv_heads=1, width=32, rows=16, layers=1),
    "heads that fill no block": SmallDecoder(heads=2, kv_heads=2, width=12, rows=20, layers=1),
    "one head of half a block": SmallDecoder(heads=3, kv_heads=1, width=8, rows=31, layers=1),
}


@cache
def quantized(decoder: SmallDecoder) -> bytes:
    return decoder.quantized()


@cache
def compiled(decoder: SmallDecoder) -> Artifact:
    return daedal.compile(quantized(decoder), VARIANT, states=STATES, cpu_levels=())


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS.keys())
def test_logits_are_those_of_the_reference(decoder: SmallDecoder, rng: np.random.Generator) -> None:
    artifact = compiled(decoder)
    assert len(artifact.launches) == 1
    assert [item.name for item in artifact.outputs] == ["logits"]
    assert {state.name for state in artifact.states} == set(decoder.caches)
    tokens = rng.integers(0, decoder.vocabulary, decoder.rows).tolist()
    reference = processor_graph(quantized(decoder), VARIANT)
    runs = feed_caches(decoder, lambda feeds: run(reference, feeds), tokens)
    expected = [item["logits"].reshape(-1) for item in runs]
    executor = Executor(artifact, open_device("functional", VARIANT))
    for _ in range(2):  # a second text begins with cleared states
        steps = generate(executor, Decoder(decoder.tables()), tokens)
        np.testing.assert_array_equal([step.logits for step in steps], expected)


def test_every_product_is_on_the_accelerator() -> None:
    macs = [item for item in compiled(GROUPED).placements if item.macs]
    assert macs and all(item.where == "accelerator" for item in macs)


def test_timing_counts_and_computes() -> None:
    outputs = {}
    for name in ("functional", "timing"):
        executor = Executor(compiled(GROUPED), open_device(name, VARIANT))
        steps = list(generate(executor, Decoder(GROUPED.tables()), [3]))
        outputs[name] = [step.token for step in steps]
        if name == "timing":
            first, *others = [step.profile.cycles or 0 for step in steps]
            assert len(set(others)) == 1, "no token takes longer than another"
            assert first > others[0], "but the first, for which weights are loaded that stay"
    assert outputs["functional"] == outputs["timing"]


@pytest.mark.rtl
@pytest.mark.xdist_group("attention-rtl")
def test_rtl_counts_and_computes_the_same() -> None:
    found = []
    for device in (rtl_device(VARIANT), open_device("timing", VARIANT)):
        executor = Executor(compiled(GROUPED), device)
        steps = generate(executor, Decoder(GROUPED.tables()), [3, 5], max_tokens=1)
        found.append([(step.logits.tolist(), step.profile.cycles) for step in steps])
    assert found[0] == found[1]


def test_layers_are_those_of_the_reference(rng: np.random.Generator) -> None:
    """Of several tokens: the reference has caches that grow."""
    tables = {name: table[:, 0] for name, table in GROUPED.tables().items()}
    tokens = rng.integers(0, GROUPED.vocabulary, (GROUPED.rows, 1))
    check = check_layers(compiled(GROUPED), quantized(GROUPED), {"token": tokens, **tables})
    compared = [item for item in check.tensors if item.difference is not None]
    assert check.passed and len(compared) > len(check.tensors) // 2


def test_a_file_keeps_states() -> None:
    artifact = compiled(GROUPED)
    assert Artifact.from_bytes(artifact.to_bytes()).states == artifact.states


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"x": "k_new_0"}, "must be an input of the model, and none is 'x'; it has token"),
        ({"k_cache_0": "x"}, "must be an output of the model, and 'x' is none"),
        ({"k_cache_*": "k_new_0"}, "both with one \\* or none, not k_cache_\\*=k_new_0"),
        ({"mask": "k_new_0"}, "only be read by a Concat .* and 'mask' is not"),
        ({"k_cache_0": "logits"}, "must be concatenated with its new rows"),
        ({"k_cache_0": "v_new_0"}, "its new rows, which follow it, and 'k_cache_0' is not"),
    ],
)
def test_what_is_no_state_is_refused(states: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        daedal.compile(quantized(GROUPED), VARIANT, states=states)


def joined(count: int = 1, scale: float = 0.5, kind: type = np.int8) -> Graph:
    """A cache with `count` new rows behind it, of which the cache may have another scale."""
    builder = GraphBuilder("cache")
    builder.input("c", TensorType((1, 2, 16, 8), "float32"))
    builder.input("x", TensorType((1, 2, count, 8), "float32"))
    builder.constant("own", np.float32(scale))
    builder.constant("s", np.float32(0.5))
    builder.constant("z", np.asarray(3, dtype=kind))

    def both(name: str, step: str = "s") -> str:
        builder.add("quantize", [name, step, "z"], {"axis": 1}, output=f"{name}_q")
        return builder.add("dequantize", [f"{name}_q", step, "z"], {"axis": 1}, output=f"{name}_d")

    builder.add("concat", [both("c", "own"), both("x")], {"axis": 2}, output="all")
    return builder.finish((both("all"), "x_d"))


def test_a_concat_becomes_a_state() -> None:
    graph, (bound,) = bind_states(joined(), {"c": "x_d"})
    assert (bound.name, bound.new, bound.rows) == ("c", "x_d", 16)
    assert graph.inputs == (bound.tensor, "x") and graph.outputs == ("all_d",)
    assert graph.types[bound.tensor].shape == (1, 2, 17, 8)
    node = graph.producers["all_q"]
    assert (node.op, node.inputs) == ("append", (bound.tensor, "x_q"))
    assert node.attrs == {"axis": 2, "begin": 16}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (joined(count=2), "one new row a run, and 'x_d' has 2"),
        (joined(scale=0.25), "must share scale and zero point, and 'c' and 'x_d' do not"),
        (joined(kind=np.uint8), "quantized to int8, and 'c' is to uint8"),
    ],
)
def test_rows_that_do_not_fit_are_refused(graph: Graph, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        bind_states(graph, {"c": "x_d"})


def test_other_variants_have_no_states() -> None:
    with pytest.raises(ModelError, match="choose a variant that computes attention"):
        daedal.compile(quantized(GROUPED), "vta", states=STATES)


def test_states_need_the_whole_model_and_an_accelerator() -> None:
    with pytest.raises(UserError, match="leave out --from and --to"):
        daedal.compile(quantized(GROUPED), VARIANT, states=STATES, to_tensors=["logits"])
    with pytest.raises(UserError, match="without states of an accelerator"):
        daedal.compile(quantized(GROUPED), target="cpu", states=STATES)


def test_a_float_model_has_no_states() -> None:
    with pytest.raises(ModelError, match="must be quantized"):
        daedal.compile(GROUPED.float_model().SerializeToString(), VARIANT, states=STATES)


def test_a_star_stands_for_the_same_text_on_both_sides() -> None:
    names = ["a.k[0]", "a.k[12]", "b.k"]
    found = match_states({"a.k*": "new*k", "b.k": "c"}, names, ["new[0]k", "new[12]k", "c"])
    assert found == {"a.k[0]": "new[0]k", "a.k[12]": "new[12]k", "b.k": "c"}
