"""Memory images in whole bus words, as the HDL loader reads and writes them."""

from collections.abc import Sequence

__all__ = ["swap_words", "whole_words", "word_range"]


def word_range(address: int, size: int, word_bytes: int) -> tuple[int, int]:
    """Return (first word, number of words) that cover a byte range."""
    first = address // word_bytes
    return first, -(-(address + size) // word_bytes) - first if size else 0


def whole_words(pieces: Sequence[tuple[int, bytes]], word_bytes: int) -> list[tuple[int, bytes]]:
    """Merge pieces that share a word; bytes of a word that no piece covers are zero."""
    spans: list[list[int]] = []  # [first byte, end byte), whole words, disjoint and ascending
    for address, data in sorted(pieces, key=lambda piece: piece[0]):
        if not data:
            continue
        first, count = word_range(address, len(data), word_bytes)
        begin, end = first * word_bytes, (first + count) * word_bytes
        if spans and begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([begin, end])
    merged = []
    for begin, end in spans:
        buffer = bytearray(end - begin)
        for address, data in pieces:
            if begin <= address < end:
                buffer[address - begin : address - begin + len(data)] = data
        merged.append((begin, bytes(buffer)))
    return merged


def swap_words(data: bytes, word_bytes: int) -> bytes:
    """Reverse the bytes of each word: `$fread` puts the first byte at the most significant end."""
    swapped = bytearray(len(data))
    for place in range(word_bytes):
        swapped[word_bytes - 1 - place :: word_bytes] = data[place::word_bytes]
    return bytes(swapped)
