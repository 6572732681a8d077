"""The operations that reduce the windows of a line in place.

A line is a sequence of positions 0, 1, 2, ... Window h takes positions ``[stride * h, stride * h +
kernel)``, and neighbouring windows overlap. `Windows.steps` gives the operations that leave the
reduction of every window in one of its own positions. They need no other memory and no initial
value, and fewer operations than taps:

1. Each group of `stride` positions is reduced to its last position.
2. Windows of whole groups are combined. A maximum may take an element twice, so it grows by unions
   of two overlapping windows: 1, 2, 4, ... groups. A sum is the difference of two prefix sums.
3. The rest of a window that is no whole group is added; step 1 has not overwritten it.

Source: Crow, "Summed-area tables for texture mapping", 1984, for sums as differences.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from daedal.isa.table import AluOp

__all__ = ["WindowStep", "Windows", "is_neutral"]


def is_neutral(operation: AluOp, value: int, bits: int) -> bool:
    """Whether no reduction of elements of `bits` bits by `operation` changes with `value` in it."""
    lowest = -(1 << (bits - 1))
    return value == 0 if operation is AluOp.ADD else operation is AluOp.MAX and value <= lowest


@dataclass(frozen=True)
class WindowStep:
    """``line[target + i * stride] op= line[source + i * stride]`` for each i in ``range(count)``.

    Parameters
    ----------
    chained : whether an iteration reads the result of the one before.
    descending : whether i counts down.
    covers : the source for i = 0 is the reduction of the original positions from the first of these
        to before the second; None if the step does not say.
    prefix : whether the source for any i begins with the first of these.
    """

    operation: AluOp
    target: int
    source: int
    stride: int
    count: int
    chained: bool = False
    descending: bool = False
    covers: tuple[int, int] | None = None
    prefix: bool = False

    def reaching(self, inside: range) -> "WindowStep":
        """The iterations whose source is reduced from at least one position of `inside`."""
        if self.covers is None:
            return self
        begin, end = self.covers
        first = max(0, (inside.start - end) // self.stride + 1)
        stop = self.count
        if not self.prefix:
            stop = min(stop, -((begin - inside.stop) // self.stride))
        skipped = first * self.stride
        return replace(
            self,
            target=self.target + skipped,
            source=self.source + skipped,
            count=max(0, stop - first),
            covers=(begin + skipped, end + skipped),
        )

    @property
    def distance(self) -> int:
        """Positions between the two operands."""
        return abs(self.source - self.target)


@dataclass(frozen=True)
class Windows:
    """The windows of a line, reduced by ADD, MIN or MAX.

    Parameters
    ----------
    single : whether there is only one window.
    """

    operation: AluOp
    kernel: int
    stride: int
    single: bool = False

    @property
    def place(self) -> int:
        """The position in which the result of window 0 is left; window h is `stride` * h later."""
        groups = self.kernel // self.stride
        if self.single or groups == 0:
            return 0
        if self.operation is AluOp.ADD and groups > 2:
            return groups * self.stride - 1
        return self.stride - 1

    def steps(
        self, count: int, cycles: Callable[[int], int], inside: range | None = None
    ) -> list[WindowStep]:
        """The operations for `count` windows, in order.

        Parameters
        ----------
        cycles : the cycles of one operation, by the distance of its operands in positions.
        inside : the positions that are not padding; operations that only read padding are left out.
            It must be neutral: 0 in a sum, the smallest element in a maximum.
        """
        found = self._steps(count, cycles)
        if inside is not None:
            found = [step.reaching(inside) for step in found]
        return [step for step in found if step.count > 0]

    def _steps(self, count: int, cycles: Callable[[int], int]) -> list[WindowStep]:
        if self.single:
            return self._halves()
        stride = self.stride
        groups, rest = divmod(self.kernel, stride)
        if groups == 0:
            return [self._step(0, tap, count) for tap in range(1, self.kernel)]
        last = stride - 1
        found = [self._step(last, tap, count + groups - 1) for tap in range(last)]
        if self.operation is AluOp.ADD and groups > 2:
            found += self._differences(groups, count)
        else:
            found += [
                replace(
                    self._step(last, last + shift * stride, count + groups - size),
                    covers=(shift * stride, size * stride),
                )
                for size, shift in self._unions(groups, count, cycles)
            ]
        found += [self._step(self.place, groups * stride + tap, count) for tap in range(rest)]
        return found

    def _step(self, target: int, source: int, count: int) -> WindowStep:
        """A step whose source has not been reduced yet."""
        covers = (source, source + 1)
        return WindowStep(self.operation, target, source, self.stride, count, covers=covers)

    def _halves(self) -> list[WindowStep]:
        """One window: its upper half is added to its lower half until one position is left."""
        found, size = [], self.kernel
        while size > 1:
            half = -(-size // 2)
            found.append(WindowStep(self.operation, 0, half, 1, size - half))
            size = half
        return found

    def _differences(self, groups: int, count: int) -> list[WindowStep]:
        """Prefix sums; then the sum before a window is subtracted from the sum at its end.

        The subtraction counts down, because each sum is read after it was the end of a window.
        """
        stride, last = self.stride, self.stride - 1
        sums = WindowStep(
            AluOp.ADD,
            target=last + stride,
            source=last,
            stride=stride,
            count=count + groups - 2,
            chained=True,
            covers=(0, stride),
            prefix=True,
        )
        differences = replace(
            sums,
            operation=AluOp.SUB,
            target=self.place + stride,
            count=count - 1,
            chained=False,
            descending=True,
        )
        return [sums, differences]

    def _unions(
        self, groups: int, count: int, cycles: Callable[[int], int]
    ) -> list[tuple[int, int]]:
        """The cheapest growth from windows of one group to windows of `groups`.

        Returns (groups of a window after the step, distance of the two windows in groups).
        """
        costs: list[tuple[int, list[tuple[int, int]]]] = [(0, [])] * (groups + 1)
        for size in range(2, groups + 1):
            work = count + groups - size
            costs[size] = min(
                (
                    costs[size - shift][0] + work * cycles(shift * self.stride),
                    [*costs[size - shift][1], (size, shift)],
                )
                for shift in range(1, size // 2 + 1)
            )
        return costs[groups][1]
