"""Machines of the ledger by name: shipped variants, and those with some parameters changed.

Documents compare these with the shipped ones: multipliers of another kind, one parameter changed at
a time, options left out.
"""

from collections.abc import Mapping

from bench.codesign.area_alternatives import ALTERNATIVES
from bench.synthesis.option_costs import ESTIMATED, OPTIONS, without
from daedal.hw.synth_pages.ledger_cycles import machine_name
from daedal.isa.variant import Variant, load_variant

__all__ = [
    "ALTERNATIVES_OF_VTA",
    "BUFFERS_OF_ATTENTION",
    "BUFFERS_ON_BOARD",
    "LARGER_VTA",
    "OPTIONS_OF_ATTENTION",
    "OTHER_MULTIPLIERS",
    "SEARCHED_FOR_NARROW",
    "SEARCHED_ON_BOARD",
    "TRANSFORMERS_ON_BOARD",
    "WIDER_ATTENTION",
    "WIDER_VTA",
    "machine",
]

Changes = Mapping[str, int | bool | str]


def _named(variant: str, *changes: Changes) -> dict[str, tuple[str, Changes]]:
    return {machine_name(variant, some): (variant, some) for some in changes}


OTHER_MULTIPLIERS = {
    **_named("batch4", {"multiplier_style": "packed"}),
    **_named("smallest", {"multiplier_style": "packed"}),
    **_named("tiny", {"multiplier_style": "packed"}),
    **_named("wide", {"multiplier_style": "packed"}),
}
"""Those of docs/hardware.md that devices ask for."""

ALTERNATIVES_OF_VTA = _named("vta", *(item.changes for item in ALTERNATIVES))

OPTIONS_OF_ATTENTION = _named(
    ESTIMATED[0], {}, *(without(option) for option in OPTIONS), without(*OPTIONS)
)

_LANES: Changes = {"requantize_lanes": 16}
_BUS: Changes = {"data_bits": 128}
WIDER_ATTENTION = _named("attention", _LANES, _BUS, {**_LANES, **_BUS})
"""Those of docs/transformers.md."""

_WEIGHTS: Changes = {"wgt_bytes": 262_144}
BUFFERS_OF_ATTENTION = _named(
    "attention",
    {**_WEIGHTS, "acc_bytes": 65_536},
    {**_WEIGHTS, "inp_bytes": 32_768, "out_bytes": 16_384},
)
"""With as many bytes of scratchpads, more of them for weights: of docs/generation.md."""

WIDER_VTA = _named("vta", _BUS)
"""A wider bus must not cost cycles."""

LARGER_VTA = _named("vta", {"out_bytes": 65_536})
"""A larger scratchpad must not cost cycles."""

TRANSFORMERS_ON_BOARD = "ecp5_transformers"
"""`ecp5` with all options of transformers, which its device has resources for."""

SEARCHED_ON_BOARD, SEARCHED_FOR_NARROW = "ecp5_searched", "ecp5_searched4"
"""`ecp5` with the parameters by which searches for the board's SDRAM gain most, and the same with
weights of 4 bits (docs/codesign.md)."""

BUFFERS_ON_BOARD = _named("ecp5", {"inp_bytes": 65_536, "wgt_bytes": 131_072})
"""The buffers that gain most with the board's SDRAM (docs/codesign.md)."""

_ALL_OPTIONS = {key: value for changes in OPTIONS.values() for key, value in changes.items()}
_SEARCHED: Changes = {
    **_ALL_OPTIONS,
    "depthwise_taps": 3,
    "inp_bytes": 65_536,
    "wgt_bytes": 131_072,
    "out_bytes": 32_768,
    "par_bytes": 32_768,
    "queue_depth": 16,
    "alu_lanes": 16,
    "counters": False,
}

_CHANGED = {
    **BUFFERS_ON_BOARD,
    TRANSFORMERS_ON_BOARD: ("ecp5", _ALL_OPTIONS),
    SEARCHED_ON_BOARD: ("ecp5", _SEARCHED),
    SEARCHED_FOR_NARROW: ("ecp5", {**_SEARCHED, "narrow_weights": True}),
    **OTHER_MULTIPLIERS,
    **ALTERNATIVES_OF_VTA,
    **OPTIONS_OF_ATTENTION,
    **WIDER_ATTENTION,
    **BUFFERS_OF_ATTENTION,
    **WIDER_VTA,
    **LARGER_VTA,
}


def machine(name: str) -> Variant:
    """The machine with this name; the changed ones keep their variant's name."""
    variant, changes = _CHANGED.get(name, (name, {}))
    return load_variant(variant).replace(None, **changes)
