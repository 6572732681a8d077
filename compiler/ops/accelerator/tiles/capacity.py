"""How much of each scratchpad a tile may take, and candidate tile sizes."""

from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["Capacity", "tile_sizes"]


class Capacity:
    """Rows that one tile may use: half of each scratchpad, so that the next tile fits, too."""

    def __init__(self, variant: Variant, share: int = 2) -> None:
        pads = scratchpads(variant)
        self.inp, self.wgt, self.acc, self.out, self.par = (
            max(1, pads[memory].depth_rows // share)
            for memory in (Memory.INP, Memory.WGT, Memory.ACC, Memory.OUT, Memory.PAR)
        )


def tile_sizes(extent: int) -> list[int]:
    """Sizes that cut `extent` into 1, 2, 3, ... nearly equal tiles, the largest first."""
    return list(dict.fromkeys(-(-extent // count) for count in range(1, extent + 1)))
