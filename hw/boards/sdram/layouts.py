"""What the blocks of the SDRAM controller tell each other, and the chip's pins."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.bus.axi import ID_BITS
from daedal.isa.sdram_chip import SdramChip

__all__ = [
    "command_layout",
    "request_layout",
    "sdram_pins",
    "segment_layout",
    "word_layout",
]


def _place(chip: SdramChip) -> dict[str, int]:
    """Fields of a word's address, lowest first: neighbouring rows lie in neighbouring banks."""
    word_bits = (chip.row_words - 1).bit_length()
    return {"column": word_bits, "bank": chip.bank_bits, "row": chip.row_bits}


def request_layout(chip: SdramChip) -> data.StructLayout:
    """A burst: place of its first word, and words minus one.

    `beyond`: it lies beyond the memory. `host`: it is the host's single word.
    """
    return data.StructLayout(
        {"write": 1, "host": 1, "beyond": 1, "id": ID_BITS, "len": 8, **_place(chip)}
    )


def segment_layout(chip: SdramChip) -> data.StructLayout:
    """The part of a burst in one row; `last`: the last part of its burst."""
    return data.StructLayout(
        {
            "write": 1,
            "host": 1,
            "beyond": 1,
            "id": ID_BITS,
            "words": range(chip.row_words + 1),
            "last": 1,
            **_place(chip),
        }
    )


def word_layout() -> data.StructLayout:
    """A word that moves in the slot being decided; `last`: the last of its burst."""
    return data.StructLayout(
        {"valid": 1, "write": 1, "host": 1, "beyond": 1, "id": ID_BITS, "last": 1}
    )


def command_layout(chip: SdramChip) -> data.StructLayout:
    """All commands of a slot: at most one of `read`, `write`; at most one of the next four.

    `every`: PRECHARGE is for all banks. `row` is a row's number, or the mode.
    """
    place = _place(chip)
    return data.StructLayout(
        {
            "read": 1,
            "write": 1,
            "data_bank": place["bank"],
            "column": place["column"],
            "precharge": 1,
            "activate": 1,
            "refresh": 1,
            "mode": 1,
            "every": 1,
            "row_bank": place["bank"],
            "row": place["row"],
        }
    )


def sdram_pins(chip: SdramChip) -> wiring.Signature:
    """The chip's pins but for its clock, CKE (always 1) and CS (always 0).

    `dq_oe` drives all data pins.
    """
    return wiring.Signature(
        {
            "ras_n": Out(1, init=1),
            "cas_n": Out(1, init=1),
            "we_n": Out(1, init=1),
            "ba": Out(chip.bank_bits),
            "a": Out(max(chip.row_bits, 11)),
            "dqm": Out(chip.data_bits // 8),
            "dq_o": Out(chip.data_bits),
            "dq_oe": Out(1),
            "dq_i": In(chip.data_bits),
        }
    )
