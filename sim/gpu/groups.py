"""Products of matrices that groups of four warps begin, and that are done when a wait needs them.

Operands are read then, too: what has been written over them by then is found. Who holds which sum,
and how operands lie: NVIDIA, PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
Instructions".
"""

from enum import IntEnum

from daedal.native.kernel import kernel
from daedal.native.types import f64, i64
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.races import (
    SHADOW_BYTES,
    begin_reading,
    end_reading,
    fail,
    found_shadow,
    mark,
    meets_unfenced,
)
from daedal.sim.gpu.raw_memory import bits_of_float, float_of_bits, load_i32, load_u16, store_i32
from daedal.sim.gpu.reports import Failure, Site
from daedal.sim.gpu.thread import ROW, Slot, State, Waiting

__all__ = [
    "GROUP",
    "GROUP_ROWS",
    "GROUP_SLOTS",
    "MAX_COLUMNS",
    "MAX_PRODUCTS",
    "Elements",
    "begin_groups",
    "end_groups",
    "serve_groups",
]

GROUP = 128
"""Threads of a group."""
GROUP_ROWS = 64
"""Of a product."""
MAX_COLUMNS = 256
MAX_PRODUCTS = 64
"""Of a group that are not done."""
LINE, CHUNK = 128, 16
"""Bytes of a line of an operand, and of what is swizzled in it."""
LINES = 8
"""That a swizzle permutes in different ways."""
FIELD = (1 << 14) - 1
"""A field of a descriptor, in units of 16 bytes."""


class Elements(IntEnum):
    """What operands have."""

    HALF = 0
    INTEGER = 1
    BFLOAT16 = 2


class Argument(IntEnum):
    """Words of 8 bytes from `Slot.EXCHANGE` on."""

    A = 0
    B = 1
    SUMS = 2
    ROW = 3
    """Elements from the first row of a thread's sums to the second."""
    COLUMN = 4
    """Elements from one column to the next."""
    COLUMNS = 5
    ELEMENTS = 6
    """See `Elements`."""
    A_ALONG = 7
    """Whether rows follow each other in lines, not terms."""
    B_ALONG = 8


ARGUMENTS = len(Argument)


class Product(IntEnum):
    """Slots of a product that is not done; the addresses of all threads' sums follow."""

    A = 0
    B = 1
    ROW = 2
    COLUMN = 3
    COLUMNS = 4
    ELEMENTS = 5
    A_ALONG = 6
    B_ALONG = 7
    NUMBER = 8
    """Of its group of products."""


HEAD = len(Product)
PRODUCT_SLOTS = HEAD + GROUP


class Group(IntEnum):
    """Slots of a group of warps; its products follow."""

    COUNT = 0
    """Of products that are not done."""
    FIRST = 1
    """The place of the oldest one."""
    COMMITTED = 2
    """Groups of products."""
    FENCED = 3
    """Whether sums have been fenced since the last commit."""


HEADER = len(Group)
GROUP_SLOTS = HEADER + MAX_PRODUCTS * PRODUCT_SLOTS


@kernel
def begin_groups(launch: Launch) -> None:
    """No product is under way in a new block."""
    for first in range(0, launch.num_threads, GROUP):
        at = first // GROUP * GROUP_SLOTS
        launch.products[at + Group.COUNT] = 0
        launch.products[at + Group.FIRST] = 0
        launch.products[at + Group.COMMITTED] = 0
        launch.products[at + Group.FENCED] = 0


@kernel
def end_groups(launch: Launch) -> None:
    """All products must be done when the threads of a block have ended."""
    for first in range(0, launch.num_threads, GROUP):
        if launch.products[first // GROUP * GROUP_SLOTS + Group.COUNT] > 0:
            fail(launch, Failure.UNFINISHED, first, Site.PRODUCT, 0, 0)


@kernel
def matrix_byte(matrix: i64, along: i64, size: i64, number: i64, term: i64) -> i64:
    """Where an element of an operand lies in shared memory, by its row or column and its term."""
    at = (matrix & FIELD) * CHUNK
    leading, stride = (matrix >> 16 & FIELD) * CHUNK, (matrix >> 32 & FIELD) * CHUNK
    if along != 0:
        per_line = LINE // size
        at += number // per_line * leading + number % per_line * size
        at += term // LINES * stride + term % LINES * LINE
    else:
        at += number // LINES * stride + number % LINES * LINE + term * size
    return at ^ (at // LINE % LINES) * CHUNK


@kernel
def touch(
    launch: Launch,
    thread: i64,
    matrix: i64,
    along: i64,
    size: i64,
    lines: i64,
    depth: i64,
    begins: bool,
) -> bool:
    """Note that a product reads an operand, when it begins and when it ends. False where it lies
    outside of shared memory."""
    for number in range(lines):
        for term in range(depth):
            address = launch.shared + matrix_byte(matrix, along, size, number, term)
            row = found_shadow(launch, address, size)
            if row < 0 or not address < launch.shared + launch.shared_bytes:
                fail(launch, Failure.OUTSIDE, thread, Site.PRODUCT, address, size)
                return False
            if row > 0:
                for byte in range(size):
                    at = row + byte * SHADOW_BYTES
                    if begins:
                        meets_unfenced(launch, at, address + byte, thread, Site.PRODUCT)
                        begin_reading(launch, at, thread)
                    else:
                        end_reading(launch, at)
                    mark(launch, at, address + byte, thread, Site.PRODUCT, False, True)
    return True


@kernel
def matrix_element(launch: Launch, address: i64, elements: i64) -> f64:
    """An element of an operand."""
    bits = load_u16(address)
    if elements == Elements.INTEGER:
        low = bits & 255
        return f64(low - 256 if low > 127 else low)
    if elements == Elements.BFLOAT16:
        return float_of_bits(bits << 16)
    return launch.halves[bits]


@kernel
def gather_matrix(
    launch: Launch, to: i64, matrix: i64, along: i64, elements: i64, lines: i64, depth: i64
) -> None:
    """An operand to `Launch.factors` from `to` on: (lines, depth)."""
    size = 1 if elements == Elements.INTEGER else 2
    for number in range(lines):
        for term in range(depth):
            address = launch.shared + matrix_byte(matrix, along, size, number, term)
            launch.factors[to + number * depth + term] = matrix_element(launch, address, elements)


@kernel
def begin_product(launch: Launch, first: i64) -> None:
    """Begin what the threads of a group ask for."""
    group = first // GROUP * GROUP_SLOTS
    asked = ROW * first + Slot.EXCHANGE
    threads = launch.threads
    products = launch.products
    if products[group + Group.FENCED] == 0:
        fail(launch, Failure.UNFENCED_SUMS, first, Site.PRODUCT, 0, 0)
        return
    count = products[group + Group.COUNT]
    if count == MAX_PRODUCTS:
        fail(launch, Failure.PRODUCTS, first, Site.PRODUCT, 0, 0)
        return
    place = (products[group + Group.FIRST] + count) % MAX_PRODUCTS
    at = group + HEADER + place * PRODUCT_SLOTS
    products[at + Product.A] = threads[asked + Argument.A]
    products[at + Product.B] = threads[asked + Argument.B]
    products[at + Product.ROW] = threads[asked + Argument.ROW]
    products[at + Product.COLUMN] = threads[asked + Argument.COLUMN]
    products[at + Product.COLUMNS] = threads[asked + Argument.COLUMNS]
    products[at + Product.ELEMENTS] = threads[asked + Argument.ELEMENTS]
    products[at + Product.A_ALONG] = threads[asked + Argument.A_ALONG]
    products[at + Product.B_ALONG] = threads[asked + Argument.B_ALONG]
    products[at + Product.NUMBER] = products[group + Group.COMMITTED]
    for thread in range(GROUP):
        sums = threads[ROW * (first + thread) + Slot.EXCHANGE + Argument.SUMS]
        products[at + HEAD + thread] = sums
    products[group + Group.COUNT] = count + 1
    touch_both(launch, first, at, True)


@kernel
def touch_both(launch: Launch, first: i64, at: i64, begins: bool) -> bool:
    """See `touch`. The first warp reads one operand, and the last one the other."""
    products = launch.products
    elements = products[at + Product.ELEMENTS]
    size, depth = 2, 16
    if elements == Elements.INTEGER:
        size, depth = 1, 32
    a, b = products[at + Product.A], products[at + Product.B]
    a_along, b_along = products[at + Product.A_ALONG], products[at + Product.B_ALONG]
    columns = products[at + Product.COLUMNS]
    if not touch(launch, first, a, a_along, size, GROUP_ROWS, depth, begins):
        return False
    return touch(launch, first + GROUP - 1, b, b_along, size, columns, depth, begins)


@kernel
def end_product(launch: Launch, first: i64, at: i64) -> None:
    """Read both operands, and add their product to the sums of all threads."""
    if not touch_both(launch, first, at, False):
        return
    products = launch.products
    columns, elements = products[at + Product.COLUMNS], products[at + Product.ELEMENTS]
    depth = 32 if elements == Elements.INTEGER else 16
    a_along, b_along = products[at + Product.A_ALONG], products[at + Product.B_ALONG]
    a, b = products[at + Product.A], products[at + Product.B]
    second = GROUP_ROWS * depth
    gather_matrix(launch, 0, a, a_along, elements, GROUP_ROWS, depth)
    gather_matrix(launch, second, b, b_along, elements, columns, depth)
    for thread in range(GROUP):
        sums = products[at + HEAD + thread]
        for number in range(columns // 2):
            upper = number % 4 // 2
            row = thread // 32 * 16 + upper * 8 + thread % 32 // 4
            column = number // 4 * 8 + thread % 4 * 2 + number % 2
            own = (number // 4 * 8 + number % 2) * products[at + Product.COLUMN]
            own += upper * products[at + Product.ROW]
            address = sums + 4 * own
            old = load_i32(address)
            total = f64(old) if elements == Elements.INTEGER else float_of_bits(old)
            for k in range(depth):
                total += (
                    launch.factors[row * depth + k] * launch.factors[second + column * depth + k]
                )
            store_i32(address, i64(total) if elements == Elements.INTEGER else bits_of_float(total))


@kernel
def wait_for_products(launch: Launch, first: i64, newest: i64) -> None:
    """End the products of a group of warps, except for those of the `newest` groups and of none."""
    group = first // GROUP * GROUP_SLOTS
    products = launch.products
    needed = products[group + Group.COMMITTED] - newest
    while products[group + Group.COUNT] > 0:
        place = products[group + Group.FIRST]
        at = group + HEADER + place * PRODUCT_SLOTS
        if products[at + Product.NUMBER] >= needed:
            return
        end_product(launch, first, at)
        if launch.failure != Failure.NONE:
            return
        products[group + Group.FIRST] = (place + 1) % MAX_PRODUCTS
        products[group + Group.COUNT] -= 1


@kernel
def differs(launch: Launch, first: i64, thread: i64) -> bool:
    """Whether a thread asks for something else than the first one; sums are its own."""
    threads = launch.threads
    one, other = ROW * first, ROW * thread
    if threads[other + Slot.STATE] != State.GROUP:
        return True
    if threads[one + Slot.WAITING] != threads[other + Slot.WAITING]:
        return True
    for argument in range(ARGUMENTS):
        at = Slot.EXCHANGE + argument
        if argument != Argument.SUMS and threads[one + at] != threads[other + at]:
            return True
    return False


@kernel
def may_serve(launch: Launch, first: i64) -> bool:
    """Whether the threads of a group wait for one operation; False, too, where none waits."""
    last = min(first + GROUP, launch.num_threads)
    waiting = -1
    for thread in range(first, last):
        if waiting < 0 and launch.threads[ROW * thread + Slot.STATE] == State.GROUP:
            waiting = thread
    if waiting < 0:
        return False
    if last - first < GROUP:
        fail(launch, Failure.GROUP_PARTIAL, waiting, 0, 0, last - first)
        return False
    for thread in range(first, last):
        if differs(launch, waiting, thread):
            fail(launch, Failure.GROUP_DIVERGED, waiting, 0, 0, 0)
            launch.other_thread = thread
            return False
    return True


@kernel
def serve_groups(launch: Launch) -> bool:
    """Execute what groups of warps wait for; whether there was anything."""
    served = False
    for first in range(0, launch.num_threads, GROUP):
        if may_serve(launch, first):
            group = first // GROUP * GROUP_SLOTS
            operation = launch.threads[ROW * first + Slot.WAITING]
            if operation == Waiting.GROUP_FENCE:
                launch.products[group + Group.FENCED] = 1
            elif operation == Waiting.GROUP_COMMIT:
                launch.products[group + Group.FENCED] = 0
                launch.products[group + Group.COMMITTED] += 1
            elif operation == Waiting.GROUP_WAIT:
                newest = launch.threads[ROW * first + Slot.EXCHANGE]
                wait_for_products(launch, first, newest)
            else:
                begin_product(launch, first)
            for thread in range(first, first + GROUP):
                launch.threads[ROW * thread + Slot.STATE] = State.READY
            served = True
        if launch.failure != Failure.NONE:
            return False
    return served
