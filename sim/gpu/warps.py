"""Operations that the 32 threads of a warp execute together.

Who holds what: NVIDIA, PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 with floating point type",
"Matrix Fragments for mma.m16n8k32", "ldmatrix", "shfl.sync".
"""

from daedal.native.kernel import kernel
from daedal.native.types import f64, i64
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.races import access, fail
from daedal.sim.gpu.raw_memory import float_of_bits, load_i32, load_u16
from daedal.sim.gpu.reports import Failure, Site
from daedal.sim.gpu.thread import ARGUMENT_WORDS, RESULT_WORD, ROW, WORDS, Slot, State, Waiting

__all__ = ["WARP", "serve_warps"]

WARP = 32
M, N = 16, 8
"""Rows and columns of a product."""
A_WORDS, B_WORDS = 4, 2


@kernel
def shuffle_xor(launch: Launch, first: i64, last: i64) -> None:
    """Each thread gets the value of the thread whose number differs in the bits of its mask; what
    is undefined where that one does not exist."""
    for thread in range(first, last):
        at = WORDS * thread
        other = first + (thread - first ^ launch.words[at + ARGUMENT_WORDS + 1]) % WARP
        launch.words[at + RESULT_WORD] = launch.poison
        if other < last:
            launch.words[at + RESULT_WORD] = launch.words[WORDS * other + ARGUMENT_WORDS]


@kernel
def load_matrices(launch: Launch, first: i64, count: i64, transposed: bool) -> None:
    """Two or four matrices of 8 x 8 elements of two bytes; thread 8 * m + r has the address of row
    r of matrix m, and gets two elements of each."""
    for thread in range(first, first + 8 * count):
        address = launch.threads[ROW * thread + Slot.EXCHANGE]
        end = launch.shared + launch.shared_bytes
        if address % 16 != 0 or not launch.shared <= address < end:
            fail(launch, Failure.ROW_ADDRESS, thread, Site.LDMATRIX, address, 16)
            return
        if not access(launch, thread, address, 16, Site.LDMATRIX, False):
            return
    for lane in range(WARP):
        for matrix in range(count):
            rows = first + 8 * matrix
            result = WORDS * (first + lane) + RESULT_WORD + matrix
            if transposed:
                row = rows + lane % 4 * 2
                low = launch.threads[ROW * row + Slot.EXCHANGE]
                high = launch.threads[ROW * (row + 1) + Slot.EXCHANGE]
                column = lane // 4 * 2
                launch.words[result] = load_u16(low + column) | load_u16(high + column) << 16
            else:
                row_at = launch.threads[ROW * (rows + lane // 4) + Slot.EXCHANGE]
                launch.words[result] = load_i32(row_at + lane % 4 * 4)


@kernel
def element(launch: Launch, thread: i64, word: i64, index: i64, waiting: i64) -> f64:
    """An element of a thread's operand that begins at `word`."""
    at = WORDS * thread + ARGUMENT_WORDS + word
    if waiting == Waiting.MMA_S8:
        return f64(launch.bytes[4 * at + index])
    bits = launch.shorts[2 * at + index]
    if waiting == Waiting.MMA_BF16:
        return float_of_bits(bits << 16)
    return launch.halves[bits]


@kernel
def gather(launch: Launch, first: i64, waiting: i64, depth: i64) -> None:
    """Both factors to `Launch.factors`: (M, depth), then (N, depth)."""
    packed = depth // 8
    for k in range(depth):
        lane = k % (depth // 2) // packed
        half = k // (depth // 2)
        for row in range(M):
            index = (half * 2 + row // 8) * packed + k % packed
            thread = first + row % 8 * 4 + lane
            value = element(launch, thread, 0, index, waiting)
            launch.factors[row * depth + k] = value
        for column in range(N):
            index = half * packed + k % packed
            value = element(launch, first + column * 4 + lane, A_WORDS, index, waiting)
            launch.factors[(M + column) * depth + k] = value


@kernel
def multiply(launch: Launch, first: i64, waiting: i64) -> None:
    """A product added to what the threads have; sums of floats are exact until the last rounding
    but for the order in float64."""
    depth = 32 if waiting == Waiting.MMA_S8 else 16
    gather(launch, first, waiting, depth)
    for row in range(M):
        for column in range(N):
            thread = first + row % 8 * 4 + column // 2
            index = row // 8 * 2 + column % 2
            at = WORDS * thread
            old = at + ARGUMENT_WORDS + A_WORDS + B_WORDS + index
            total = f64(launch.words[old]) if waiting == Waiting.MMA_S8 else launch.floats[old]
            for k in range(depth):
                total += launch.factors[row * depth + k] * launch.factors[(M + column) * depth + k]
            if waiting == Waiting.MMA_S8:
                launch.words[at + RESULT_WORD + index] = i64(total)
            else:
                launch.floats[at + RESULT_WORD + index] = total


@kernel
def may_execute(launch: Launch, first: i64, last: i64) -> bool:
    """Whether the threads of a warp wait for one operation; False, too, where none waits."""
    threads = launch.threads
    waiting = -1
    for thread in range(first, last):
        if waiting < 0 and threads[ROW * thread + Slot.STATE] == State.WARP:
            waiting = thread
    if waiting < 0:
        return False
    operation = threads[ROW * waiting + Slot.WAITING]
    for thread in range(first, last):
        at = ROW * thread
        if threads[at + Slot.STATE] != State.WARP or threads[at + Slot.WAITING] != operation:
            fail(launch, Failure.WARP_DIVERGED, waiting, 0, 0, 0)
            launch.other_thread = thread
            return False
    if operation != Waiting.SHUFFLE_XOR and last - first < WARP:
        fail(launch, Failure.WARP_PARTIAL, waiting, 0, 0, last - first)
        return False
    return True


@kernel
def serve_warps(launch: Launch) -> bool:
    """Execute what warps wait for; whether there was anything."""
    served = False
    for first in range(0, launch.num_threads, WARP):
        last = min(first + WARP, launch.num_threads)
        if may_execute(launch, first, last):
            operation = launch.threads[ROW * first + Slot.WAITING]
            if operation == Waiting.SHUFFLE_XOR:
                shuffle_xor(launch, first, last)
            elif operation == Waiting.LDMATRIX or operation == Waiting.LDMATRIX_TRANS:
                load_matrices(launch, first, 4, operation == Waiting.LDMATRIX_TRANS)
            elif operation == Waiting.LDMATRIX2 or operation == Waiting.LDMATRIX2_TRANS:
                load_matrices(launch, first, 2, operation == Waiting.LDMATRIX2_TRANS)
            else:
                multiply(launch, first, operation)
            for thread in range(first, last):
                launch.threads[ROW * thread + Slot.STATE] = State.READY
            served = True
        if launch.failure != Failure.NONE:
            return False
    return served
