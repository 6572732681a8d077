"""Launches that keep every layer's result: they compute the same, and nothing is written over."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import daedal
from daedal.artifact.artifact import Artifact, Binding, Launch, Layer, Result
from daedal.checking.integer_reference import processor_graph
from daedal.compiler.graph import run_all
from daedal.isa.program import Program
from daedal.isa.table import BASES, Opcode
from daedal.isa.tensor import TensorSpec
from daedal.isa.verifier import verify
from daedal.runtime.kept_layers import keep_layers
from examples.digits.data import demo_images
from tests.support.memory_programs import (
    TINY,
    WORD_BYTES,
    load,
    marked,
    random_program,
    reads,
    spec,
    store,
)

INPUTS, OUTPUTS, WORKSPACE = (BASES.index(name) for name in ("inputs", "outputs", "workspace"))
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"


@given(st.integers(0, 2**32 - 1))
def test_loads_read_the_same_and_results_stay(seed: int) -> None:
    """Whatever layers write over: also what others still read, and words of the same layer."""
    program, results = random_program(np.random.default_rng(seed))
    layers = tuple(
        Layer(tag, item.name, "op", 0, f"{item.name} of the model", 0, Result(item, binding(item)))
        for tag, item in enumerate(results)
    )
    kept = keep_layers(Launch(program, (), (binding(results[-1]),), layers))
    seen, memory = reads(program)
    seen_kept, memory_kept = reads(kept.program)
    assert seen_kept == seen
    bound = {item.tensor: item.name for item in kept.outputs}
    assert bound == {item.name: f"{item.name} of the model" for item in kept.program.outputs}
    for item in kept.program.outputs:
        words = [item.offset_bytes // WORD_BYTES + k for k in range(item.size_bytes // WORD_BYTES)]
        tags = {owner(program, memory_kept[item.base, word]) for word in words}
        assert tags == {int(item.name[1:])}
    owners = [{owner(program, word) for word in words if word} for words in seen]
    if all(len(of_load) <= 1 for of_load in owners):
        assert {item.name for item in kept.outputs} == {layer.output for layer in layers}
    for base in ("inputs", "outputs"):
        number = BASES.index(base)
        before, after = (
            {at: word for at, word in found.items() if at[0] == number}
            for found in (memory, memory_kept)
        )
        assert before == after


def test_an_output_that_the_program_stores_under_another_name_is_kept_once() -> None:
    """The host reads the same words as a tensor of another layout."""
    first, last = spec("first", WORKSPACE, 0, 2), spec("last", OUTPUTS, 0, 2)
    program = Program(
        TINY,
        marked(
            [
                [load(INPUTS, 0, 2), store(WORKSPACE, 0, 2)],
                [load(WORKSPACE, 0, 2), store(OUTPUTS, 0, 2)],
            ]
        ),
        region_bytes=(0, 2 * WORD_BYTES, 2 * WORD_BYTES, 2 * WORD_BYTES),
        inputs=(spec("x", INPUTS, 0, 2),),
        outputs=(replace(last, name="in rows"),),
        marks={0: "first", 1: "last"},
    )
    output = replace(binding(last), tensor="in rows")
    layers = tuple(
        Layer(tag, item.name, "op", 0, binding(item).name, 0, Result(item, binding(item)))
        for tag, item in enumerate((first, last))
    )
    kept = keep_layers(Launch(program, (), (output,), layers))
    assert kept.outputs == (output, binding(first))
    assert [item.name for item in kept.program.outputs] == ["in rows", "first"]


def binding(item: TensorSpec) -> Binding:
    return Binding(f"{item.name} of the model", item.name, item.shape, flip_sign=False)


def owner(program: Program, word: int) -> int:
    """The layer that stored a word: the tag of the next STORE that bears a mark; -1 for inputs."""
    if word < 0:
        return -1
    following = program.instructions[word // 1000 - 1 :]
    return next(item.tag for item in following if item.opcode is Opcode.STORE and item.mark)


@pytest.mark.parametrize("name", ["tiny", "ecp5", "batch4"])
def test_layers_of_a_network(name: str) -> None:
    """The digits network: same instructions, tokens and cycles; results equal the reference. None
    of these machines keeps results on chip that would not be stored."""
    variant = daedal.load_variant(name)
    artifact = daedal.compile(DIGITS, variant)
    (launch,) = artifact.launches
    kept = keep_layers(launch)
    verify(kept.program)
    for old, new in zip(launch.program.instructions, kept.program.instructions, strict=True):
        fields = old.values.keys() | new.values.keys()
        assert {
            field for field in fields if old.values.get(field, 0) != new.values.get(field, 0)
        } <= {"base", "offset_beats"}
    whole = replace(artifact, parts=tuple(kept if x is launch else x for x in artifact.parts))
    images, _ = demo_images(2 * variant.array.batch)
    found, plain = (daedal.simulate(item, {"input": images}) for item in (whole, artifact))
    for output, array in plain.outputs.items():
        np.testing.assert_array_equal(found.outputs[output], array)
    assert set(found.tensors) == {layer.output for layer in launch.layers}
    graph = processor_graph(DIGITS, variant)
    for k, image in enumerate(images):
        values = run_all(graph, {"input": image[None]})
        for output, array in found.tensors.items():
            np.testing.assert_array_equal(array[k], values[output].reshape(array[k].shape), output)
    assert cycles(whole) == cycles(artifact)


def cycles(artifact: Artifact) -> int | None:
    return daedal.profile(artifact, device="timing").cycles
