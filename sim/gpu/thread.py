"""`Slot`: what the emulator keeps of a thread; the kernels' ``ptr %gpu`` points to a thread's."""

from enum import IntEnum

__all__ = ["ARGUMENT_WORDS", "RESULT_WORD", "ROW", "WORDS", "Slot", "State", "Waiting"]


class Slot(IntEnum):
    """Places in a thread's row, of 8 bytes each."""

    STACK = 0
    """The stack pointer while it does not run."""
    STATE = 1
    SITE = 2
    """Of the barrier where it waits."""
    THREAD_X = 3
    THREAD_Y = 4
    THREAD_Z = 5
    BLOCK_X = 6
    BLOCK_Y = 7
    BLOCK_Z = 8
    SHARED = 9
    """The address of the block's shared memory."""
    NUMBER = 10
    """In its block, x fastest."""
    LAUNCH = 11
    """The address of the `Launch`."""
    HOME = 12
    """The address of the scheduler's stack pointer."""
    ENTRY = 13
    """The address of the kernel."""
    BUFFERS = 14
    """The address of the kernel's arguments."""
    WAITING = 15
    """The operation for which it waits for its warp."""
    NUM_COPIES = 16
    """Asynchronous copies that have not landed."""
    FIRST_COPY = 17
    """The place of the oldest one."""
    GROUPS = 18
    """Groups of asynchronous copies that are committed."""
    FENCES = 19
    """How often it has made what it wrote visible to products of groups of warps."""
    EXCHANGE = 20
    """Operands of an operation of a warp, and results."""


ROW = 32
"""Slots of a row."""
WORDS = 2 * ROW
"""Words of 4 bytes of a row."""
ARGUMENT_WORDS = 2 * Slot.EXCHANGE
"""The first word of an operation's operands."""
RESULT_WORD = ARGUMENT_WORDS + 16
"""The first word of an operation's results."""


class State(IntEnum):
    """What a thread does."""

    NEW = 0
    READY = 1
    BARRIER = 2
    """It waits for its block."""
    WARP = 3
    """It waits for its warp."""
    ENDED = 4
    GROUP = 5
    """It waits for its group of warps."""
    ARRIVAL = 6
    """It waits for bytes that copies of boxes bring."""


class Waiting(IntEnum):
    """Operations that all threads of a warp, or of a group of warps, execute together."""

    SHUFFLE_XOR = 0
    LDMATRIX = 1
    LDMATRIX_TRANS = 2
    MMA_F16 = 3
    MMA_BF16 = 4
    MMA_S8 = 5
    LDMATRIX2 = 6
    LDMATRIX2_TRANS = 7
    GROUP_PRODUCT = 8
    GROUP_FENCE = 9
    GROUP_COMMIT = 10
    GROUP_WAIT = 11
