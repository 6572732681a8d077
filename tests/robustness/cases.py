"""Cases by number: which file comes out of which mutations. The same number, the same bytes."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx

import daedal
from daedal.isa.variant import load_variant
from tests.robustness.artifact_mutations import ARTIFACT_MUTATIONS, CPU_ARTIFACT_MUTATIONS
from tests.robustness.byte_mutations import BYTE_MUTATIONS
from tests.robustness.cpu_models import CPU_MODEL_NAMES, cpu_model
from tests.robustness.gentle_mutations import GENTLE_MUTATIONS
from tests.robustness.graph_mutations import GRAPH_MUTATIONS
from tests.robustness.models import MODEL_NAMES, small_model
from tests.robustness.nasty import pick
from tests.robustness.nesting_mutations import NESTING_MUTATIONS
from tests.robustness.value_mutations import VALUE_MUTATIONS

__all__ = [
    "VARIANT",
    "Case",
    "artifact_case",
    "cpu_artifact_case",
    "cpu_model_case",
    "model_case",
]

VARIANT = load_variant("tiny")

_MODEL_MUTATIONS = (
    *GENTLE_MUTATIONS,
    *GRAPH_MUTATIONS,
    *VALUE_MUTATIONS,
    *NESTING_MUTATIONS,
    *GENTLE_MUTATIONS,
)
"""The gentle ones twice: what they make goes furthest."""

_NUM_FIRST = len(_MODEL_MUTATIONS) + len(BYTE_MUTATIONS)


@dataclass(frozen=True)
class Case:
    """A mutated file and how it came to be."""

    description: str
    data: bytes


def model_case(number: int) -> Case:
    """A mutated ONNX file. Numbers in a row take every mutation in turn, then the next model; a
    third of them get a gentle one before."""
    name = MODEL_NAMES[(number // _NUM_FIRST + number) % len(MODEL_NAMES)]
    return _mutated_model(np.random.default_rng([1, number]), number, name, small_model(name))


def cpu_model_case(number: int) -> Case:
    """The same of models for processors, quantized ones among them."""
    names = (*CPU_MODEL_NAMES, *CPU_MODEL_NAMES, *MODEL_NAMES)
    name = names[(number // _NUM_FIRST + number) % len(names)]
    seed = cpu_model(name) if name in CPU_MODEL_NAMES else small_model(name)
    return _mutated_model(np.random.default_rng([3, number]), number, name, seed)


def _mutated_model(rng: np.random.Generator, number: int, name: str, seed: bytes) -> Case:
    model = onnx.ModelProto.FromString(seed)
    steps = [name]
    first = number % _NUM_FIRST
    chosen = [_MODEL_MUTATIONS[first]] if first < len(_MODEL_MUTATIONS) else []
    if rng.random() < 1 / 3:
        chosen.insert(0, pick(rng, GENTLE_MUTATIONS))
    for mutation in chosen:
        mutation(rng, model)
        steps.append(mutation.__name__)
    data = bytes(model.SerializeToString(deterministic=True))
    if first >= len(_MODEL_MUTATIONS):
        last = BYTE_MUTATIONS[first - len(_MODEL_MUTATIONS)]
        data = last(rng, data)
        steps.append(last.__name__)
    return Case(", ".join(steps), data)


def artifact_case(number: int) -> Case:
    """A mutated artifact. Numbers in a row take every mutation in turn, then the next artifact."""
    rng = np.random.default_rng([2, number])
    mutations = (*ARTIFACT_MUTATIONS, *BYTE_MUTATIONS)
    name = MODEL_NAMES[(number // len(mutations) + number) % len(MODEL_NAMES)]
    mutation = mutations[number % len(mutations)]
    return Case(f"{name}, {mutation.__name__}", mutation(rng, _artifact(name)))


def cpu_artifact_case(number: int) -> Case:
    """A mutated artifact for processors alone, as `artifact_case`."""
    rng = np.random.default_rng([4, number])
    mutations = (*CPU_ARTIFACT_MUTATIONS, *BYTE_MUTATIONS)
    name = CPU_MODEL_NAMES[(number // len(mutations) + number) % len(CPU_MODEL_NAMES)]
    mutation = mutations[number % len(mutations)]
    return Case(f"{name}, {mutation.__name__}", mutation(rng, _cpu_artifact(name)))


@cache
def _cpu_artifact(name: str) -> bytes:
    return daedal.compile(cpu_model(name), target="cpu").to_bytes()


@cache
def _artifact(name: str) -> bytes:
    return daedal.compile(small_model(name), VARIANT, cache=False).to_bytes()
