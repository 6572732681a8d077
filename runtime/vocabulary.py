"""`Vocabulary`: text to token ids and back, by the pieces of a byte-pair encoding.

Source: SentencePiece's byte-pair encoding with byte fallback, as Llama 2 uses it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from daedal.common.errors import ModelError

__all__ = ["Vocabulary"]

_BYTE = re.compile(rb"<0x([0-9A-F]{2})>")
_SPACE = b" "


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of text that tokens stand for.

    Parameters
    ----------
    pieces : the bytes of each token, by id. ``<0x0A>`` stands for the byte 10.
    scores : of each piece. Of two neighbours that together are a piece, those with the highest
        score are joined first.
    begin : the token before every text.
    """

    pieces: tuple[bytes, ...]
    scores: tuple[float, ...]
    begin: int

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.pieces) or not 0 <= self.begin < len(self.pieces):
            raise ModelError(
                "a vocabulary must have a score for each piece, and a token at which texts begin; "
                f"this one has {len(self.pieces)} pieces and {len(self.scores)} scores, and begins "
                f"with {self.begin}"
            )

    def encode(self, text: str) -> list[int]:
        """The ids of a text, after the one with which every text begins.

        Raises ModelError for a character that has no pieces.
        """
        ids = [
            index
            for character in (f" {text}" if text else "")
            for index in self._characters(character.encode())
        ]
        while True:
            pairs = (
                (-self.scores[joined], place, joined)
                for place in range(len(ids) - 1)
                if (joined := self._joined(ids[place], ids[place + 1])) is not None
            )
            best = min(pairs, default=None)
            if best is None:
                return [self.begin, *ids]
            _, place, joined = best
            ids[place : place + 2] = [joined]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens; that of the first word has no space before it.

        Raises ModelError for an unknown token.
        """
        found, previous = b"", self.begin
        for index in ids:
            piece = self.piece(index)
            if previous == self.begin:
                piece = piece.removeprefix(_SPACE)
            if index != self.begin:
                found += piece
            previous = index
        return found.decode(errors="replace")

    def piece(self, index: int) -> bytes:
        """The bytes of a token. Raises ModelError for an unknown one."""
        if not 0 <= index < len(self.pieces):
            raise ModelError(
                f"a token must be one of the {len(self.pieces)} of the vocabulary, from 0, not "
                f"{index}; give the decoder's own vocabulary"
            )
        piece = self.pieces[index]
        byte = _BYTE.fullmatch(piece)
        return piece if byte is None else bytes([int(byte[1], 16)])

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The first token of each piece."""
        return {piece: index for index, piece in reversed(list(enumerate(self.pieces)))}

    def _characters(self, character: bytes) -> list[int]:
        if character in self._ids:
            return [self._ids[character]]
        names = [b"<0x%02X>" % byte for byte in character]
        if not all(name in self._ids for name in names):
            raise ModelError(
                "a prompt must be of characters that the vocabulary has, and it has no "
                f"{character.decode()!r}; leave it out"
            )
        return [self._ids[name] for name in names]

    def _joined(self, first: int, second: int) -> int | None:
        return self._ids.get(self.pieces[first] + self.pieces[second])
