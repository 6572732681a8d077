"""STOREs of results that nothing reads move nothing, and every layer can still be checked."""

import dataclasses

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.artifact.artifact import Launch
from daedal.checking.layer_check import check_layers
from daedal.compiler.link.on_chip.unread_stores import unread_stores
from daedal.compiler.link.placement.memory_plan import WORKSPACE, Alias
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.instruction import Instruction
from daedal.isa.table import BASES, Opcode
from daedal.isa.verifier import verify
from tests.compiler.link.on_chip.test_kept_results import chain

OUTPUTS = BASES.index("outputs")


def moving(opcode: Opcode, tensor: str, base: int = WORKSPACE, cols: int = 1) -> PlacedInstruction:
    template = Instruction.of(opcode, base=base, blocks=2, rows=1, cols=cols)
    return PlacedInstruction(template, 0, (), tensor)


def test_what_is_loaded_or_given_away_is_stored() -> None:
    items = [
        moving(Opcode.STORE, "kept"),
        moving(Opcode.STORE, "loaded"),
        moving(Opcode.STORE, "padded"),
        moving(Opcode.STORE, "part"),
        moving(Opcode.STORE, "given"),
        moving(Opcode.STORE, "y", OUTPUTS),
        moving(Opcode.LOAD, "loaded"),
        moving(Opcode.LOAD, "padded", cols=0),
        moving(Opcode.LOAD, "whole"),
    ]
    aliases = {"part": Alias("whole", 64), "given": Alias("y", 0)}
    assert unread_stores(items, aliases, ["y"]) == {0: 2, 2: 2}


@pytest.mark.parametrize(
    "device",
    [
        "functional",
        pytest.param("rtl", marks=[pytest.mark.rtl, pytest.mark.xdist_group("attention-rtl")]),
    ],
)
def test_every_layer_can_be_checked(device: str) -> None:
    model = chain(20, 32, 4).SerializeToString()
    artifact = daedal.compile(model, "attention")
    (launch,) = artifact.launches
    assert launch.program.unread
    verify(launch.program)
    verify(launch.program.observed)
    x = np.random.default_rng(0).normal(size=(1, 32, 20, 1)).astype(np.float32)
    opened = rtl_device(launch.program.variant) if device == "rtl" else device
    found = check_layers(artifact, model, {"x": x}, device=opened)
    assert found.passed
    assert len(found.tensors) > len(launch.layers)


def test_all_stores_take_longer_and_give_the_same() -> None:
    model = chain(20, 32, 4).SerializeToString()
    artifact = daedal.compile(model, "attention")
    parts = [
        dataclasses.replace(part, program=part.program.observed)
        if isinstance(part, Launch)
        else part
        for part in artifact.parts
    ]
    whole = dataclasses.replace(artifact, parts=tuple(parts))
    x = np.random.default_rng(1).normal(size=(1, 32, 20, 1)).astype(np.float32)
    expected, found = (daedal.simulate(item, {"x": x}) for item in (whole, artifact))
    for name, values in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], values)
    cycles = [
        daedal.simulate(item, {"x": x}, device="timing").profiles[0].cycles
        for item in (whole, artifact)
    ]
    assert cycles[0] > cycles[1]
