"""Relations between the rows of instances that one ALU instruction uses.

Input: the instructions of a layer. Output: which instances of OUT must have the rows of which
accumulators, and which accumulators should lie in different banks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.cost.instructions import num_steps
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["RowRelations"]

_LOOPS = range(3)


class RowRelations:
    """The relations of one layer.

    Attributes
    ----------
    results : by an instance of the accumulators, the instance of OUT that must have the same rows,
        because an operation reads one and writes the other with one row number.
    """

    def __init__(self, items: Sequence[SegmentInstruction], variant: Variant) -> None:
        self.results: dict[Instance, Instance] = {}
        # By instance, those that should be in another bank: the sum of the first rows at which
        # they meet, and how many operations would take a cycle more.
        self._apart: dict[Instance, dict[Instance, Counter[int]]] = {}
        # With two banks, the lowest bit of a row does not choose its bank.
        low_bits = variant.memory.acc_banks > 2
        pairs: dict[Instance, tuple[Instance, Instance]] = {}
        for item in items:
            if item.unit is not Unit.ALU:
                continue
            target = _first_rows(item, "dst_base")
            if len(target) > 1:
                result, operand = target
                assert result.begin == operand.begin, "operand and result have the same rows"
                pair = operand.instance, result.instance
                if any(pairs.setdefault(one, pair) != pair for one in pair):
                    raise ScheduleError(
                        "a result that is written with the row numbers of an operand must have one "
                        f"such operand, and the operand one result; {pair[1].name!r} and "
                        f"{pair[0].name!r} have several; compute both at the same loop"
                    )
                self.results[operand.instance] = result.instance
            if low_bits and target[-1].reads:
                self._keep_apart(item, target[-1])

    def odd(self, instance: Instance, rows: Mapping[Instance, int]) -> bool | None:
        """Whether `instance` should begin at an odd row, from the `rows` of those placed so far.

        The ALU reads both operands of an operation in one cycle if their banks differ. Where an
        instance meets several, the one that it meets more often counts. None if it does not matter.
        """
        odd = even = 0
        for other, meetings in self._apart.get(instance, {}).items():
            for distance, count in meetings.items() if other in rows else ():
                if (rows[other] + distance) % 2:
                    even += count
                else:
                    odd += count
        return None if odd == even else odd > even

    def _keep_apart(self, item: SegmentInstruction, x: RowAccess) -> None:
        """Remember the two operands, if their distance stays odd, or stays even."""
        (y,) = _first_rows(item, "src_base")
        steady = all(_keeps_parity(item.template.values, loop) for loop in _LOOPS)
        steady = steady and len({(dst - src) % 2 for dst, src, _ in item.uops or ()}) == 1
        if x.instance is not y.instance and steady:
            assert x.instance.memory is y.instance.memory is Memory.ACC, "operands are accumulators"
            for one, other in ((x.instance, y.instance), (y.instance, x.instance)):
                meetings = self._apart.setdefault(one, {}).setdefault(other, Counter())
                meetings[(x.begin + y.begin) % 2] += num_steps(item)


def _keeps_parity(values: Mapping[str, int], loop: int) -> bool:
    """Whether an iteration of a loop changes the distance of the operands by an even number."""
    steps = (values.get(f"{operand}_factor{loop}", 0) for operand in ("dst", "src"))
    return values.get(f"extent{loop}", 0) < 2 or sum(steps) % 2 == 0


def _first_rows(item: SegmentInstruction, field: str) -> list[RowAccess]:
    """The first access of `item` to each instance whose rows `field` numbers."""
    found: dict[Instance, RowAccess] = {}
    for access in item.rows:
        if access.field == field:
            found.setdefault(access.instance, access)
    return list(found.values())
