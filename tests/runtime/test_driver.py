"""The driver places regions, moves tensors, and refuses what does not fit."""

import numpy as np
import pytest

from daedal.common.errors import ProgramError
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.tensor import TensorSpec
from daedal.isa.variant import load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice

TINY = load_variant("tiny")
# ReLU of an (1, 10, 2, 3) tensor: two channel blocks of six rows each.
TEXT = """
    LOAD memory=ACC_NARROW base=inputs blocks=1 rows=1 cols=12 push=ALU
    LOAD memory=UOP_ALU blocks=1 rows=1 cols=1 push=ALU
    ALU operation=MAX use_immediate=1 destination=OUT saturate=1 uop_end=1 \
extent0=12 extent1=1 extent2=1 dst_factor0=1 src_factor0=1 pop=LOAD
    ALU operation=MOV pop=LOAD push=STORE
    STORE memory=OUT base=outputs blocks=1 rows=1 cols=12 pop=ALU
    FINISH
"""


def relu_program() -> Program:
    shape = (1, 10, 2, 3)
    x = TensorSpec("x", 1, 0, shape, 8, 1, 8)
    y = TensorSpec("y", 2, 0, shape, 8, 1, 8)
    code = TEXT.replace("pop=LOAD\n    ALU operation=MOV pop=LOAD push", "pop=LOAD push")
    code = code.replace("cols=12 push=ALU", "cols=12")
    return Program(
        TINY, tuple(assemble(code)), bytes(8), (8, x.size_bytes, y.size_bytes, 0), (x,), (y,)
    )


def test_a_tensor_goes_in_and_comes_out(rng: np.random.Generator) -> None:
    loaded = LoadedProgram.place(relu_program(), FunctionalDevice(TINY))
    for _ in range(3):
        x = rng.integers(-128, 128, (1, 10, 2, 3))
        outputs, profile = loaded.run({"x": x})
        assert (outputs["y"] == np.maximum(x, 0)).all()
        assert profile.cycles is None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "a run takes exactly the inputs x; 'x' is missing"),
        ({"x": np.zeros((1, 10, 2, 3)), "z": 0}, "'z' is none of them"),
        ({"x": np.zeros((1, 10, 3, 2))}, r"tensor 'x' must have shape \(1, 10, 2, 3\)"),
    ],
)
def test_wrong_inputs_are_refused(inputs: dict, message: str) -> None:
    loaded = LoadedProgram.place(relu_program(), FunctionalDevice(TINY))
    with pytest.raises(ProgramError, match=message):
        loaded.run(inputs)


def test_regions_are_bounded() -> None:
    loaded = LoadedProgram.place(relu_program(), FunctionalDevice(TINY))
    with pytest.raises(ProgramError, match="region 'outputs' holds 96 bytes, not 97"):
        loaded.write_region(2, bytes(97))


def test_bytes_may_fill_a_region_to_its_end_from_any_offset() -> None:
    loaded = LoadedProgram.place(relu_program(), FunctionalDevice(TINY))
    size = loaded.program.region_bytes[1]
    loaded.write_region(1, bytes(range(size)))
    loaded.write_region(1, b"\xff" * 5, size - 5)
    assert loaded.read_region(1) == bytes(range(size - 5)) + b"\xff" * 5
    with pytest.raises(ProgramError, match=f"'inputs' holds {size} bytes, not {size + 1}"):
        loaded.write_region(1, bytes(5), size - 4)
    assert loaded.read_region(1)[size - 5 :] == b"\xff" * 5
