"""The trained digits network: reference, functional simulator and RTL give the same bytes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.api import SimulationResult
from daedal.artifact.artifact import Artifact, HostPart, Launch
from daedal.checking.integer_reference import integer_layers, processor_graph
from daedal.compiler.graph import run_all
from daedal.isa.table import Unit
from daedal.isa.variant import Variant
from daedal.isa.verifier import verify
from daedal.sim.rtl.device import RtlDevice
from examples.digits.data import demo_images

MODEL = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"


@cache
def layers(variant: Variant) -> list[str]:
    """Every tensor that the accelerator computes."""
    return [target for _, _, target in integer_layers(processor_graph(MODEL, variant))]


@cache
def compiled(variant: Variant, keep_layers: bool) -> Artifact:
    """The network, or a program of it in which every layer is an output."""
    return daedal.compile(MODEL, variant, to_tensors=layers(variant) if keep_layers else ())


def assert_reference(result: SimulationResult, variant: Variant, num_images: int) -> None:
    """Every tensor that left the accelerator equals the integer graph's."""
    graph = processor_graph(MODEL, variant)
    images, _ = demo_images(num_images)
    expected = [run_all(graph, {"input": image[None]}) for image in images]
    for name, found in result.tensors.items():
        wanted = np.stack([values[name] for values in expected]).reshape(found.shape)
        np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.fixture(
    params=[
        pytest.param("tiny", marks=pytest.mark.xdist_group("tiny-rtl")),
        pytest.param("vta", marks=[pytest.mark.slow, pytest.mark.xdist_group("vta-rtl")]),
    ]
)
def machine(request: pytest.FixtureRequest) -> RtlDevice:
    """The RTL of a variant."""
    return rtl_device(daedal.load_variant(request.param))


@pytest.mark.parametrize("name", ["vta", "tiny"])
@pytest.mark.parametrize("keep_layers", [False, True])
def test_functional_equals_the_reference(name: str, keep_layers: bool) -> None:
    variant = daedal.load_variant(name)
    images, labels = demo_images(16)
    result = daedal.simulate(compiled(variant, keep_layers), {"input": images})
    assert list(result.tensors) == (layers(variant) if keep_layers else ["fc0_q"])
    assert_reference(result, variant, 16)
    if not keep_layers:
        assert np.count_nonzero(result.outputs["probabilities"].argmax(axis=1) == labels) >= 15


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_program_keeps_the_rules(name: str) -> None:
    artifact = compiled(daedal.load_variant(name), False)
    verify(artifact.program)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    # The addition runs in the convolution before it.
    expected = [name for name in layers(artifact.program.variant) if name != "conv2_q"]
    assert [layer.output for layer in artifact.layers] == expected
    assert sum(layer.macs for layer in artifact.layers) == 379_136
    assert [type(part) for part in artifact.parts] == [HostPart, Launch, HostPart]


@pytest.mark.rtl
@pytest.mark.parametrize("keep_layers", [False, True])
def test_rtl_equals_functional(machine: RtlDevice, keep_layers: bool) -> None:
    artifact = compiled(machine.variant, keep_layers)
    images, _ = demo_images(2)
    found = daedal.simulate(artifact, {"input": images}, device=machine)
    expected = daedal.simulate(artifact, {"input": images})
    for name, array in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[name], array, err_msg=name)
    assert_reference(found, machine.variant, 2)


@pytest.mark.rtl
def test_every_layer_of_the_program_as_it_is(machine: RtlDevice) -> None:
    """On the RTL too, without a program of which every layer is an output."""
    artifact = compiled(machine.variant, False)
    images, _ = demo_images(1)
    check = daedal.check_layers(artifact, MODEL, {"input": images}, device=machine)
    assert check.passed
    assert [item.layer for item in check.tensors if item.layer] == list(artifact.layers)
    assert all(item.difference is not None for item in check.tensors)


@pytest.mark.rtl
def test_layer_profiles_add_up(machine: RtlDevice) -> None:
    """Layers' cycles reach to the last STORE; each unit's classes cover every cycle of the run."""
    artifact = compiled(machine.variant, False)
    images, _ = demo_images(1)
    result = daedal.simulate(artifact, {"input": images}, device=machine)
    (profile,), (per_layer,) = result.profiles, result.layers
    assert profile.cycles is not None
    assert [item.layer for item in per_layer] == list(artifact.layers)
    stores = [mark.cycle for mark in profile.marks if mark.unit is Unit.STORE]
    assert sum(item.cycles for item in per_layer) == max(stores) <= profile.cycles
    assert all(0 <= item.share <= 1 for item in per_layer)
    for counters in profile.units.values():
        assert sum(counters.classes.values()) == profile.cycles
    products = sum(item.products for item in per_layer)
    assert products == profile.units[Unit.GEMM].work
    assert products * machine.variant.macs_per_cycle >= 379_136
