"""Artifacts and programs with one bit flipped: refused in a sentence, or the same as before."""

from pathlib import Path

import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.isa.program import Program
from tests.robustness.models import small_model

STEP = 11
"""`make test` flips every so many bits, the slow tests each."""


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return daedal.compile(small_model("residual"), "tiny")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("step", [STEP, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [Artifact, Program])
def test_flipped_bits(artifact: Artifact, kind: type[Artifact] | type[Program], step: int) -> None:
    whole = artifact if kind is Artifact else artifact.program
    data = whole.to_bytes()
    num_read = 0
    for bit in range(0, 8 * len(data), step):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = kind.from_bytes(bytes(changed))
        except UserError as error:
            assert str(error).isprintable() and len(str(error)) < 1000, bit
        else:
            assert found == whole, bit
            num_read += 1
    assert 0 < num_read < len(data) / step, "some bits mean nothing, such as a member's date"


@pytest.mark.parametrize("method", [1, 9, 12, 14, 93])
def test_other_compressions_are_refused(artifact: Artifact, method: int, tmp_path: Path) -> None:
    """One bit makes bzip2 of deflate; what the modules of Python raise then is of all kinds."""
    data = artifact.to_bytes().replace(b"\x08\0\0\0!\0", bytes([method]) + b"\0\0\0!\0")
    assert data != artifact.to_bytes()
    with pytest.raises(UserError, match="must be a file that `daedal compile` wrote"):
        Artifact.from_bytes(data)
