"""`feature_title` and `cycles_title`: features of schedules and cycles of units as phrases.

Input: names of `Space.features`, and cycle classes of units. Output: a phrase with its unit each,
for tables and charts.
"""

import re

from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.runtime.bound import WAITS, Bound

__all__ = ["bound_text", "cycles_title", "feature_title"]

_KNOBS = {
    "blocks": "blocks of channels in a tile",
    "by_columns": "one output at a time (1: yes, 0: no)",
    "gather": "rows between those of a window left out (1: yes, 0: no)",
    "groups": "tiles of channels that share a load of weights",
    "height": "height of a tile, in rows of pixels",
    "in_blocks": "blocks of input channels in a step",
    "keep_inputs": "inputs of a tile stay on chip (1: yes, 0: no)",
    "keep_padding": "products with padding computed (1: yes, 0: no)",
    "load_columns": "columns between those that remain loaded (1: yes, 0: no)",
    "out_blocks": "blocks of output channels in a tile",
    "sums_outside": "GEMM adds one product per output in turn (1: yes, 0: no)",
    "tap_columns": "columns of the window in a step",
    "tap_rows": "rows of the window in a step",
    "threads": "tiles that take turns, step by step",
    "turns": "tiles of output channels with weights that stay on chip",
    "width": "width of a tile, in pixels",
}
_PROPERTIES = {
    "accumulators": "rows of accumulators for a tile",
    "beats": "bus words moved, in all",
    "constant_beats": "bus words of weights and parameters, in all",
    "first_step_beats": "bus words loaded for the first step",
    "first_tile_beats": "bus words loaded for the first tile",
    "group": "blocks of output channels with weights that stay on chip",
    "input_beats": "bus words of inputs, in all",
    "input_rows": "rows of scratchpad INP for a tile",
    "instructions": "instructions, in all",
    "interleaves": "space left for another layer (1: yes, 0: no)",
    "kept_weight_beats": "bus words of weights that stay on chip",
    "last_beats": "bus words stored for the last tile",
    "last_vector_cycles": "cycles of ALU for the last tile",
    "loaded": "vectors loaded for a tile",
    "product_cycles": "cycles of GEMM, in all",
    "steps": "steps of a tile",
    "tile_beats": "bus words moved for a tile",
    "tile_product_cycles": "cycles of GEMM for a tile",
    "tile_products": "products of a step",
    "tile_vector_cycles": "cycles of ALU for a tile",
    "tiles": "tiles of the layer",
    "unbalanced_cycles": "cycles of the busiest unit in each tile, in all",
    "vector_cycles": "cycles of ALU, in all",
    "weight_rows": "rows of scratchpad WGT for a step",
}
_PHRASES = {**_KNOBS, **_PROPERTIES}


def feature_title(feature: str) -> str:
    """A phrase for a feature, with the unit of its values: ``bus words moved, in all``."""
    part = re.fullmatch(r"part(\d+)", feature)
    if part:
        return f"number of the schedule of part {part[1]}"
    return _PHRASES.get(feature, feature.replace("_", " "))


def cycles_title(unit: Unit, kind: CycleClass) -> str:
    """``cycles in which GEMM waits for LOAD``, and as much for the other classes."""
    if kind in WAITS:
        return f"cycles in which {unit.name} waits for {WAITS[kind].name}"
    return f"cycles in which {unit.name} {_DOES[kind]}"


_DOES = {
    CycleClass.BUSY: "works",
    CycleClass.IDLE: "has no instruction",
    CycleClass.STALL: "waits for bus, memory or a scratchpad",
}


def bound_text(bound: Bound) -> str:
    """What limits a layer, as the end of a sentence."""
    match bound:
        case Bound.TOKENS:
            return "units that wait for each other"
        case Bound.FETCH:
            return "the supply of instructions (FETCH)"
        case Bound.LOAD | Bound.STORE:
            return f"{bound.name}, or the bus"
        case _:
            return bound.name
