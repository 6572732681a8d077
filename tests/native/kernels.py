"""Kernels for the tests: each uses a few parts of the language."""

import enum
from collections.abc import Mapping
from typing import Any

from daedal.native.intrinsic import intrinsic
from daedal.native.kernel import kernel
from daedal.native.record import record
from daedal.native.types import Array, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

BASE = 7
SCALE = 0.5


class Colour(enum.IntEnum):
    """Constants by dotted name."""

    RED = 2
    BLUE = 5


class Outer:
    """Constants by names with two dots."""

    class Inner:
        """See `Outer`."""

        LIMIT = 3


@kernel
def arithmetic(a: i64, b: i64, c: i64, out: Array[i64]) -> None:
    """One result of each operator; wrapped, because Python's integers grow."""
    out[0] = i64(a + b - c)
    out[1] = i64(a * b)
    out[2] = a & b | c
    out[3] = a ^ ~b
    out[4] = i64(-a)
    out[5] = abs(a >> 1)
    out[6] = min(a, b, c)
    out[7] = max(a, b, c)
    out[8] = i64(a << 3)
    out[9] = a >> 5
    out[10] = (a < b) + (a <= b) + (a == b) + (a != b) + (a > b) + (a >= b)
    out[11] = BASE * Colour.BLUE - Colour.RED
    out[12] = +a
    out[13] = a if a < b < c else b if a != c else c


@kernel
def division(a: i64, b: i64, out: Array[i64]) -> None:
    """Rounds down, by variables and by constants."""
    out[0] = i64(a // b)
    out[1] = a % b
    out[2] = a // 8
    out[3] = a % 8
    out[4] = a // 7
    out[5] = a % 7
    out[6] = i64(a // -3)
    out[7] = a % -3


@kernel
def shifts(a: i64, n: i64, out: Array[i64]) -> None:
    """By any amount that is not negative."""
    out[0] = i64(a << n)
    out[1] = a >> n
    out[2] = i64(1 << n)


@kernel
def casts(a: i64, x: f64, out: Array[i64]) -> f64:
    """To every width and back."""
    out[0] = i8(a)
    out[1] = u8(a)
    out[2] = i16(a)
    out[3] = u16(a)
    out[4] = i32(a)
    out[5] = u32(a)
    out[6] = u64(a)
    out[7] = int(x)
    out[8] = bool(a)
    out[9] = int(bool(x))
    return f32(x) + float(a) * SCALE


@kernel
def narrow_parameters(a: i8, b: u16, c: bool, x: f32) -> f64:
    """What comes in is converted."""
    return f64(a) + f64(b) + (x if c else -x)


@kernel
def floats(x: f64, y: f64) -> f64:
    """Float arithmetic and comparisons."""
    best = max(x, y) - min(x, y)
    if x < y or (x == y and not y > 2.5):
        best = best + x * y / 3
    return abs(best) - x


@kernel
def widths(
    a: Array[i8],
    b: Array[u8],
    c: Array[i16],
    d: Array[u16],
    e: Array[i32],
    f: Array[u32],
    g: Array[u64],
    h: Array[f32],
) -> i64:
    """Elements of every type: read, changed, stored with what fits."""
    total = 0
    for i in range(len(a)):
        total += a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + i32(g[i])
        a[i] += 100
        b[i] -= 100
        c[i] = c[i] * 3
        d[i] = d[i] << 3
        e[i] = e[i] * e[i]
        f[i] = f[i] * 5
        g[i] = g[i] ^ -1
        h[i] = h[i] / 3 + f64(i)
    return total


@kernel
def collatz(n: i64, limit: i64) -> i64:
    """while, break, continue, early return."""
    steps = 0
    while n != 1:
        if steps >= limit:
            return -1
        steps += 1
        if n % 2 == 0:
            n //= 2
            continue
        n = 3 * n + 1
        if n > 1 << 50:
            break
    return steps


@kernel
def ranges(begin: i64, end: i64, step: i64) -> i64:
    """Loops with steps of both signs; the body may change the loop's name."""
    total = 0
    i = -1
    for i in range(begin, end, step):
        total = i64(total * 31 + i)
        i += 1000
        if total % 13 == 5:
            break
    for k in range(9, 0, -2):
        total += k
        for j in range(k):
            if j == 3:
                continue
            total ^= j
    return i64(total * 3 + i)


@kernel
def logic(a: i64, b: i64, c: bool) -> i64:
    """Short circuit: the right side of `and` and `or` has effects only where it is reached."""
    flag = a > 3 and b % (a - 3 if a > 3 else 1) == 0
    both = a and b
    either = a or b
    count = 0
    if (c and not flag) or (a < b and b < 10):
        count = 1
    elif c:
        count = 2
    else:
        count = 3
    mixed = flag
    mixed = mixed + count
    return mixed + 10 * both + 100 * either


@kernel
def swap(a: i64, b: i64) -> i64:
    """Tuples, chained targets, annotated locals."""
    x: i64 = a
    y = z = b
    x, y = y, x
    return x * 2 + y * 3 + z


@record
class Machine:
    """Scalars of each type, and arrays."""

    cycle: i64
    energy: f64
    stalled: bool
    busy: Array[i64]
    kind: Array[u8]


@kernel
def advance(m: Machine, unit: i64) -> bool:
    """Called by `simulate`; changes the record."""
    m.cycle += 1
    m.busy[unit] += m.kind[unit]
    m.energy += SCALE * f64(m.busy[unit])
    m.stalled = m.busy[unit] > 40 or m.cycle % 5 == 0
    return not m.stalled


@kernel
def simulate(m: Machine, cycles: i64) -> i64:
    """Calls another kernel; binds an array field to a local."""
    busy = m.busy
    moved = 0
    for _ in range(cycles):
        if advance(m, m.cycle % len(busy)):
            moved += 1
    return moved + busy[0]


@kernel
def factorial(n: i64) -> i64:
    """Recursion."""
    return 1 if n <= 1 else i64(n * factorial(n - 1))


@kernel
def faults(a: Array[i64], index: i64, divisor: i64, amount: i64) -> i64:
    """Everything that a checked run checks."""
    assert index != 3
    step = divisor
    for _ in range(0, amount, step):
        pass
    return a[index] // divisor + (a[0] << amount)


@kernel
def calls_faults(a: Array[i64], index: i64) -> i64:
    """A failure in a called kernel ends the caller."""
    found = faults(a, index, 1, 0)
    a[0] = 99
    return found


def _pair_sum_text(names: Mapping[str, Any]) -> str:
    return """
declare i64 @llvm.vector.reduce.add.v2i64(<2 x i64>)
define internal i64 @SELF(ptr %a, i64 %a.len, i64 %at) alwaysinline {
  %where = getelementptr inbounds i64, ptr %a, i64 %at
  %pair = load <2 x i64>, ptr %where, align 8
  %sum = call i64 @llvm.vector.reduce.add.v2i64(<2 x i64> %pair)
  ret i64 %sum
}
"""


@intrinsic(_pair_sum_text)
def pair_sum(a: Array[i64], at: i64) -> i64:
    """Two neighbours, added."""
    return a[at] + a[at + 1]


@kernel
def sums_of_pairs(a: Array[i64], out: Array[i64]) -> None:
    """Calls an intrinsic."""
    for i in range(len(out)):
        out[i] = pair_sum(a, i)


@kernel
def limited(a: i64) -> i64:
    """A constant in a class in a class."""
    return min(a, Outer.Inner.LIMIT)
