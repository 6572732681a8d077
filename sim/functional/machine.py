"""The machine state as the kernels see it: one record of flat arrays."""

from daedal.native.record import record
from daedal.native.types import Array, i8, i16, i32, i64, u64

__all__ = ["Machine"]


@record
class Machine:
    """Views of an `isa.semantics.State` and of external memory, and the position of the run.

    `inp`, `wgt`, `acc`, `out`, `bias`, `multiplier`, `shift`, `tab` and the micro-ops are the
    state's own arrays. `inp_pairs` (rows, batch, pairs, 2) and `wgt_pairs` (rows, parts, pairs,
    lanes, 2) are 16-bit copies that LOAD keeps up to date: a part is `Shape.lanes` outputs. Rows
    of OUT that GEMM multiplies are copied behind those of INP before their products.
    `memory8` to `memory64` view the same memory with elements of different widths. `table` is the
    program from `columns.columns`. `tokens` are counters indexed by ``source * 5 + target``.
    """

    position: i64
    missing: i64
    inp: Array[i64]
    wgt: Array[i64]
    acc: Array[i64]
    out: Array[i64]
    bias: Array[i64]
    multiplier: Array[i64]
    shift: Array[i64]
    tab: Array[i64]
    gemm_uops: Array[u64]
    alu_uops: Array[u64]
    inp_pairs: Array[i16]
    wgt_pairs: Array[i16]
    memory8: Array[i8]
    memory16: Array[i16]
    memory32: Array[i32]
    memory64: Array[i64]
    bases: Array[i64]
    region_words: Array[i64]
    table: Array[i64]
    tokens: Array[i64]
