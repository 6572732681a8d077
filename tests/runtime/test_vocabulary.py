"""Texts as tokens: pieces are joined by score, bytes stand in for characters without a piece."""

import pytest

from daedal.common.errors import ModelError
from daedal.runtime.vocabulary import Vocabulary

PIECES = (b"\n<s>\n", b" ", b"a", b"b", b" a", b"ab", b"abb", b"<0xC3>", b"<0xA4>", b"<0x0A>")
SCORES = (0.0, -1.0, -2.0, -3.0, -5.0, -4.0, -6.0, 0.0, 0.0, 0.0)
VOCABULARY = Vocabulary(PIECES, SCORES, begin=0)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", [0]),
        ("a", [0, 4]),
        ("ab", [0, 1, 5]),  # "ab" has a higher score than " a"
        ("abb", [0, 1, 6]),
        ("b a", [0, 1, 3, 4]),
        ("b\n", [0, 1, 3, 9]),
        ("ä", [0, 1, 7, 8]),
    ],
)
def test_round_trip(text: str, ids: list[int]) -> None:
    assert VOCABULARY.encode(text) == ids
    assert VOCABULARY.decode(ids) == text


def test_only_the_first_word_loses_its_space() -> None:
    assert VOCABULARY.decode([4, 4, 5]) == "a aab"


def test_half_a_character_is_replaced() -> None:
    assert VOCABULARY.decode([0, 2, 7]) == "a�"


def test_a_character_without_pieces_is_refused() -> None:
    with pytest.raises(ModelError, match="it has no 'é'; leave it out"):
        VOCABULARY.encode("aé")


@pytest.mark.parametrize(("scores", "begin"), [(SCORES[1:], 0), (SCORES, 10), (SCORES, -1)])
def test_a_vocabulary_fits_together(scores: tuple[float, ...], begin: int) -> None:
    with pytest.raises(ModelError, match="a score for each piece, and a token at which texts"):
        Vocabulary(PIECES, scores, begin)


@pytest.mark.parametrize("index", [-1, len(PIECES)])
def test_an_unknown_token_has_no_text(index: int) -> None:
    with pytest.raises(ModelError, match=rf"one of the 10 of the vocabulary, from 0, not {index}"):
        VOCABULARY.decode([0, index])
