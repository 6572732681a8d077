"""Places of a program: the tensor element behind a byte or a row."""

import numpy as np
import pytest

from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory
from daedal.isa.tensor import TensorSpec, unpack_tensor
from daedal.isa.variant import load_variant
from daedal.sim.trace.place import behind_row, in_memory

TINY = load_variant("tiny")
SPEC = TensorSpec("x", 1, 64, (1, 13, 3, 5), 8, 1, 8)


def program(text: str = "FINISH") -> Program:
    output = TensorSpec("y", 2, 0, (1, 8, 2, 2), 8, 1, 8)
    return Program(
        TINY,
        tuple(assemble(text)),
        region_bytes=(0, 4096, 4096, 0),
        inputs=(SPEC,),
        outputs=(output,),
    )


def test_a_byte_of_a_tensor_is_where_unpacking_finds_it(rng: np.random.Generator) -> None:
    for offset in rng.integers(0, SPEC.size_bytes, 20).tolist():
        data = bytearray(SPEC.size_bytes)
        data[offset] = 1
        place = in_memory(program(), 1, 64 + offset)
        assert place.tensor == "x"
        found = np.argwhere(unpack_tensor(SPEC, bytes(data)))
        # Channels that only fill a block are in memory and in no tensor.
        assert place.element is not None
        assert [list(place.element)] == found.tolist() or place.element[1] >= 13


@pytest.mark.parametrize("offset", [0, 63, 64 + SPEC.size_bytes])
def test_bytes_between_tensors_have_no_name(offset: int) -> None:
    place = in_memory(program(), 1, offset)
    assert (place.tensor, place.element) == (None, None)
    assert str(place) == f"inputs + {offset:#x}"


def test_a_row_is_followed_to_its_load_or_its_next_store() -> None:
    text = """
        LOAD memory=INP base=inputs offset_beats=8 row=4 blocks=1 rows=1 cols=3
        GEMM
        ALU
        STORE memory=OUT base=outputs offset_beats=2 row=20 blocks=1 rows=1 cols=2
        STORE memory=OUT base=outputs row=20 blocks=1 rows=1 cols=2
        FINISH
    """
    loaded = behind_row(program(text), 0, Memory.INP, 6, 3)
    assert loaded is not None
    assert (loaded.instruction, loaded.offset_bytes, loaded.element) == (0, 83, (0, 3, 0, 2))
    assert str(loaded) == "inputs + 0x53, tensor 'x', element (0, 3, 0, 2)"
    stored = behind_row(program(text), 2, Memory.OUT, 21, 0)
    assert stored is not None
    assert (stored.instruction, stored.tensor, stored.element) == (3, "y", (0, 0, 1, 1))
    assert behind_row(program(text), 2, Memory.OUT, 22, 0) is None
    assert behind_row(program(text), 1, Memory.ACC, 20, 0) is None
