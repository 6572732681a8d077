"""What a decoder needs besides its states: a file of it, and which input is the token."""

from pathlib import Path

import numpy as np
import pytest

from daedal.artifact.artifact import Artifact, HostPart, Value
from daedal.common.errors import ModelError
from daedal.runtime.decoder import Decoder
from daedal.runtime.vocabulary import Vocabulary

VOCABULARY = Vocabulary((b"<s>", b"", b"\x00a\x00", b" b"), (0.0, -1.5, -2.0, -0.5), 0)
MASK = np.arange(12, dtype=np.float32).reshape(4, 1, 3)
DECODER = Decoder({"mask": MASK}, VOCABULARY, ends=(0, 2))


def artifact(**shapes: tuple[int, ...]) -> Artifact:
    inputs = tuple(Value(name, shape) for name, shape in shapes.items())
    return Artifact((HostPart(b""),), inputs, ())


def test_round_trip(tmp_path: Path) -> None:
    np.savez(tmp_path / "decoder.npz", **DECODER.to_arrays())
    with np.load(tmp_path / "decoder.npz", allow_pickle=False) as arrays:
        found = Decoder.from_arrays(dict(arrays))
    assert found.vocabulary == VOCABULARY and found.ends == (0, 2)
    np.testing.assert_array_equal(found.tables["mask"], MASK)
    plain = Decoder.from_arrays(Decoder({}).to_arrays())
    assert plain.vocabulary is None and plain.ends == () and plain.tables == {}


@pytest.mark.parametrize(
    "change",
    [
        {"ends": None},
        {"scores": None},
        {"begin": None},
        {"extra": np.zeros(1)},
        {"piece_sizes": np.array([3, 0, 3, 3])},
        {"piece_sizes": np.array([3, -1, 4, 2])},
        {"piece_sizes": np.array([], dtype=np.int64)},
        {"begin": np.array([1, 2])},
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, np.ndarray | None]) -> None:
    arrays = {**DECODER.to_arrays(), **change}
    with pytest.raises(ModelError, match=r"a decoder must be arrays as .* of a vocabulary; these"):
        Decoder.from_arrays({name: value for name, value in arrays.items() if value is not None})


def test_the_token_is_the_input_without_a_table() -> None:
    assert DECODER.token_input(artifact(mask=(1, 3), ids=(1, 1))) == "ids"
    for shapes, message in (
        ({"mask": (1, 3)}, "none of the artifact's have none"),
        ({"mask": (1, 3), "a": (1,), "b": (1,)}, "'a', 'b' of the artifact's have none"),
        ({"mask": (1, 3), "ids": (1, 2)}, "'ids' of the artifact's have none"),
        ({"mask": (1, 4), "ids": (1,)}, r"'mask' is \[4, 1, 3\]; the inputs are 'mask' \[1, 4\]"),
        ({"ids": (1,)}, r"'mask' is \[4, 1, 3\]"),
    ):
        with pytest.raises(ModelError, match=message):
            DECODER.token_input(artifact(**shapes))


def test_inputs_are_those_of_the_position() -> None:
    np.testing.assert_array_equal(DECODER.inputs_at(3)["mask"], MASK[3])
    for wrong in (-1, 4):
        with pytest.raises(ModelError, match=rf"one of the 4 positions of its tables, .* {wrong}"):
            DECODER.inputs_at(wrong)
