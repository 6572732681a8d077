"""Sequences of primitives: what is mined from kernels that were timed, and searches that use it."""

from collections.abc import Mapping

from bench.tuning.searches.sequences import Mixed, Timed, applied, mined
from daedal.compiler.ops.listed_space import ListedSpace
from daedal.compiler.ops.space import Config, Table
from daedal.compiler.tune.cost_model import Reals
from daedal.compiler.tune.features import BOUND, OVERHEAD, REFERENCE
from daedal.compiler.tune.transfer import Transfer

KNOBS = ("lanes", "rows", "order")


class Listed(ListedSpace[None]):
    """All values of three knobs; the estimates are equal, so that the first one is the default."""

    def __init__(self) -> None:
        rows = [(lanes, row, order) for lanes in (16, 32) for row in (2, 4, 6) for order in (0, 1)]
        super().__init__(KNOBS, dict.fromkeys(rows))

    def cycles(self, table: Table) -> Reals:
        return 1.0 + 0.0 * table["lanes"]

    def features(self, table: Table) -> Mapping[str, Reals]:
        return {knob: 1.0 * table[knob] for knob in KNOBS}


def kernel(operator: str, slow: int) -> Timed:
    """Two knobs together save a third; one of them alone a tenth, the other nothing."""
    space = Listed()
    times = {}
    for config in space.configs(space.all()):
        wide, tall = config["lanes"] == 32, config["rows"] == 6
        taken = 600 if wide and tall else 900 if wide else 1000
        times[config] = slow * taken + config["order"]
    return Timed(operator, space, times)


def test_what_won_with_several_operators_is_mined() -> None:
    found = mined([kernel("C2", 1), kernel("C9", 3)])
    assert found[0] == (("lanes", 32), ("rows", 6))
    assert (("lanes", 32),) in found
    assert (("rows", 6),) not in found, "alone, it saves nothing"
    assert not mined([kernel("C2", 1)]), "one operator is no other one's evidence"


def test_a_sequence_changes_its_knobs_alone() -> None:
    config = Config.of(lanes=16, rows=4, order=1)
    assert applied((("rows", 6), ("product", 16)), config) == Config.of(lanes=16, rows=6, order=1)


def test_every_second_candidate_is_a_sequence_that_changes_the_best() -> None:
    timed = kernel("D1", 1)
    same = timed.space.cycles(timed.space.all())
    columns = {REFERENCE: same, OVERHEAD: 0 * same, BOUND: 0 * same}
    search = Mixed(timed.space, Transfer().warm(columns), [(("rows", 6),)])
    search.observe([timed.space.default], [timed.default])
    (first,) = search.propose(1)
    assert first == applied((("rows", 6),), timed.space.default)
    search.observe([first], [timed.times[first]])
    found = [first]
    while configs := search.propose(1):
        found += configs
        search.observe(configs, [timed.times[configs[0]]])
    assert len(set(found)) == len(timed.times) - 1, "each candidate is proposed once"
