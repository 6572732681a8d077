"""Checks of latencies between units that must match.

Input: constants of the blocks that `machine` connects. Output: nothing, or an ElaborationError.
Latencies within one block are checked in that block.
"""

from daedal.hw.contracts import require_at_elaboration
from daedal.hw.issue.gate import TOKEN_TO_ISSUE_CYCLES
from daedal.hw.issue.sequencer import ISSUE_TO_MICRO_OP_CYCLES
from daedal.hw.load.fill_buffer import FILL_TO_RETIRE_CYCLES
from daedal.hw.memory.scratchpad import WRITE_CYCLES
from daedal.isa.latencies import ACC_READ_CYCLES, RAM_READ_CYCLES

__all__ = ["check_latencies"]


def check_latencies() -> None:
    """Check the latencies that units and scratchpads rely on.

    The earliest read after a token is that of GEMM's and ALU's micro-ops; rows of INP, WGT and OUT
    are read by GEMM four cycles later. STORE's reads of OUT need no such rule: they pass as many
    registers as the ALU's writes.
    """
    token_to_read = TOKEN_TO_ISSUE_CYCLES + ISSUE_TO_MICRO_OP_CYCLES
    first_read = FILL_TO_RETIRE_CYCLES + token_to_read
    require_at_elaboration(
        first_read > WRITE_CYCLES,
        "a fill must be in its RAM before its token lets anybody read it: WRITE_CYCLES must be "
        "less than FILL_TO_RETIRE_CYCLES, TOKEN_TO_ISSUE_CYCLES and ISSUE_TO_MICRO_OP_CYCLES "
        "together",
    )
    require_at_elaboration(
        token_to_read > WRITE_CYCLES,
        "a result must be in its RAM before the ALU's token lets GEMM read it: WRITE_CYCLES must "
        "be less than TOKEN_TO_ISSUE_CYCLES and ISSUE_TO_MICRO_OP_CYCLES together",
    )
    require_at_elaboration(
        WRITE_CYCLES + RAM_READ_CYCLES == ACC_READ_CYCLES,
        "STORE must get rows of OUT as late as those of the accumulators: WRITE_CYCLES and "
        "RAM_READ_CYCLES together must be ACC_READ_CYCLES",
    )
