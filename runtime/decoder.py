"""`Decoder`: what a decoder needs besides its states: the inputs of each position, and its tokens.

An artifact says which of its inputs are states. Of the others, one is the token; all others depend
on the position alone, such as the mask and the angles of a rotary embedding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.artifact.artifact import Artifact
from daedal.common.errors import ModelError
from daedal.runtime.vocabulary import Vocabulary

__all__ = ["Decoder"]

Array = npt.NDArray[Any]

_TABLE = "table/"
_NAMES = ("pieces", "piece_sizes", "scores", "begin")
"""Arrays of the vocabulary in a file."""


@dataclass(frozen=True)
class Decoder:
    """The inputs of every position, and the vocabulary.

    Parameters
    ----------
    tables : by input, (positions, ...): the input at each position.
    vocabulary : None if texts are token ids.
    ends : tokens that end a text.
    """

    tables: Mapping[str, Array]
    vocabulary: Vocabulary | None = None
    ends: tuple[int, ...] = ()

    def to_arrays(self) -> dict[str, Array]:
        """Its arrays for ``numpy.savez``, which `from_arrays` reads."""
        arrays: dict[str, Array] = {
            f"{_TABLE}{name}": np.asarray(table) for name, table in self.tables.items()
        }
        arrays["ends"] = np.array(self.ends, dtype=np.int64)
        if self.vocabulary is not None:
            pieces = self.vocabulary.pieces
            arrays["pieces"] = np.frombuffer(b"".join(pieces), dtype=np.uint8)
            arrays["piece_sizes"] = np.array([len(piece) for piece in pieces], dtype=np.int64)
            arrays["scores"] = np.array(self.vocabulary.scores, dtype=np.float64)
            arrays["begin"] = np.array(self.vocabulary.begin, dtype=np.int64)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "Decoder":
        """Raises ModelError for arrays that `to_arrays` does not give."""
        tables = {
            name.removeprefix(_TABLE): table
            for name, table in arrays.items()
            if name.startswith(_TABLE)
        }
        known = {f"{_TABLE}{name}" for name in tables} | {"ends", *_NAMES}
        try:
            if not arrays.keys() <= known:
                raise ValueError("there are others")
            ends = tuple(int(index) for index in arrays["ends"].reshape(-1))
            vocabulary = _vocabulary(arrays) if "pieces" in arrays else None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelError(
                "a decoder must be arrays as `Decoder.to_arrays` gives them: 'ends', tables of "
                f"inputs as '{_TABLE}INPUT', and {', '.join(map(repr, _NAMES))} of a vocabulary; "
                f"these are {', '.join(map(repr, arrays)) or 'none'}"
            ) from error
        return cls(tables, vocabulary, ends)

    def token_input(self, artifact: Artifact) -> str:
        """The input of the token: the only one of the artifact that has no table.

        Raises ModelError if the tables are not those of the artifact.
        """
        shapes = {item.name: item.shape for item in artifact.inputs}
        for name, table in self.tables.items():
            if name not in shapes or not table.ndim or table.shape[1:] != shapes[name]:
                raise ModelError(
                    f"a table of a decoder must be (positions, ...) of an input, and {name!r} is "
                    f"{list(table.shape)}; the inputs are "
                    f"{', '.join(f'{each!r} {list(shape)}' for each, shape in shapes.items())}"
                )
        left = [name for name in shapes if name not in self.tables]
        if len(left) != 1 or np.prod(shapes[left[0]], dtype=np.int64) != 1:
            raise ModelError(
                "a decoder must have a table for each input but one, which is the token; "
                f"{', '.join(map(repr, left)) or 'none'} of the artifact's have none"
            )
        return left[0]

    def inputs_at(self, position: int) -> dict[str, Array]:
        """The inputs that depend on the position. Raises ModelError if there is no such."""
        rows = min((len(table) for table in self.tables.values()), default=position + 1)
        if not 0 <= position < rows:
            raise ModelError(
                f"a decoder must be run at one of the {rows} positions of its tables, from 0, not "
                f"{position}; generate fewer tokens"
            )
        return {name: table[position] for name, table in self.tables.items()}


def _vocabulary(arrays: Mapping[str, Array]) -> Vocabulary:
    text, sizes = arrays["pieces"].astype(np.uint8).tobytes(), arrays["piece_sizes"].reshape(-1)
    ends = np.cumsum(sizes.astype(np.int64))
    if np.any(sizes < 0) or sizes.sum() != len(text):
        raise ValueError("pieces must fill their bytes")
    pieces = tuple(
        text[int(end) - int(size) : int(end)] for end, size in zip(ends, sizes, strict=True)
    )
    scores = tuple(float(score) for score in arrays["scores"].reshape(-1))
    return Vocabulary(pieces, scores, int(arrays["begin"].reshape(())))
