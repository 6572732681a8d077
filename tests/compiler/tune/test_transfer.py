"""The transferred model: what it takes to new tasks, what it keeps, and its file."""

import importlib.util
import re

import numpy as np
import pytest

from bench.tuning.searches.random_search import Random
from daedal.common.errors import TuningError
from daedal.compiler.tune.features import ANALYTIC, REFERENCE, shared_columns
from daedal.compiler.tune.guided import Guided
from daedal.compiler.tune.samples import Samples
from daedal.compiler.tune.transfer import Transfer
from tests.support.tuning_spaces import Rugged, Small

# Not imported here: that takes two seconds, in each process that collects tests.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xgboost") is None, reason="xgboost is missing; install daedal[tune]"
)

MACHINE = {"machine units": 4.0, "machine banks": 3.0}


def rugged(height: int, width: int, depth: int) -> Rugged:
    """A matrix product of another shape."""
    space = Rugged()
    space.HEIGHT, space.WIDTH, space.DEPTH = height, width, depth
    return space


KNOWN = [rugged(*shape) for shape in ((64, 300, 500), (200, 100, 256), (150, 250, 100))]
NEW = rugged(113, 210, 390)


def columns_of(space: Rugged):
    """Features of all configurations."""
    return shared_columns(space, space.all(), machine=MACHINE)


def measured(space: Rugged, count: int, seed: int):
    """Rows of configurations drawn at random, and their cycles."""
    table = space.all()
    rows = np.random.default_rng(seed).permutation(len(table["height"]))[:count]
    return rows, space.true_cycles(table)[rows].astype(float)


def samples_of(space: Rugged, count: int, seed: int):
    """The features of such configurations, and their cycles."""
    rows, cycles = measured(space, count, seed)
    return {name: column[rows] for name, column in columns_of(space).items()}, cycles


def learned(spaces, *, prior: bool = True, per_task: int = 256) -> Transfer:
    transfer = Transfer(Samples(per_task=per_task), prior=prior)
    for number, space in enumerate(spaces):
        transfer.learn(f"task {number}", *samples_of(space, 300, number))
    return transfer


def share_in_order(scores, cycles) -> float:
    """Share of random pairs whose scores are ordered as their cycles."""
    first, second = np.random.default_rng(1).integers(len(scores), size=(2, 5000))
    differs = cycles[first] != cycles[second]
    agree = (scores[first] < scores[second]) == (cycles[first] < cycles[second])
    return float(agree[differs].mean())


@pytest.mark.parametrize("prior", [True, False])
def test_a_new_task_starts_with_what_others_taught(prior):
    columns, (rows, cycles) = columns_of(NEW), measured(NEW, 2000, 9)
    warm = learned(KNOWN, prior=prior).warm(columns).predict(rows)
    analytic = share_in_order(columns[REFERENCE][rows], cycles)
    assert share_in_order(warm, cycles) > max(analytic + 0.02, 0.85)


def test_without_the_prior_nothing_of_the_estimate_is_seen():
    columns, (rows, cycles) = columns_of(NEW), measured(NEW, 100, 9)
    rng = np.random.default_rng(3)
    hidden = {name: column * rng.uniform(1, 3, len(column)) for name, column in columns.items()}
    changed = {**columns, **{name: hidden[name] for name in ANALYTIC}}
    for prior in (True, False):
        scores = []
        for seen in (columns, changed):
            model = learned(KNOWN, prior=prior).warm(seen)
            model.fit(rows[:20], cycles[:20])
            scores.append(model.predict(rows))
        assert np.array_equal(*scores) == (not prior)


def test_a_search_adds_to_the_shared_model_and_leaves_it_as_it_is():
    transfer, columns = learned(KNOWN), columns_of(NEW)
    rows, cycles = measured(NEW, 2000, 9)
    warm = transfer.warm(columns)
    before = warm.predict(rows)
    warm.fit(*measured(NEW, 64, 8))
    assert share_in_order(warm.expect(rows), cycles) > share_in_order(before, cycles)
    assert np.array_equal(transfer.warm(columns).predict(rows), before)


def test_a_search_whose_measurements_contradict_what_others_taught_trusts_it_less():
    """The others deviate from the estimate in the opposite direction."""
    misleading = Transfer()
    for number, space in enumerate(KNOWN):
        others, taken = samples_of(space, 300, number)
        misleading.learn(f"task {number}", others, others[REFERENCE] ** 2 / taken)
    columns, (rows, cycles) = columns_of(NEW), measured(NEW, 2000, 9)
    own = measured(NEW, 16, 8)
    misled, right = misleading.warm(columns), learned(KNOWN).warm(columns)
    analytic = share_in_order(columns[REFERENCE][rows], cycles)
    assert share_in_order(misled.predict(rows), cycles) < analytic - 0.02
    misled.fit(*own)
    right.fit(*own)
    assert share_in_order(misled.expect(rows), cycles) > analytic - 0.01
    assert misled.trust < 0.25
    assert right.trust > 0.75


def test_a_model_without_samples_is_the_estimate_until_it_is_fitted():
    columns, (rows, cycles) = columns_of(NEW), measured(NEW, 500, 9)
    model, estimates = Transfer().warm(columns), columns[REFERENCE][rows]
    assert (np.argsort(model.predict(rows)) == np.argsort(np.log(estimates))).all()
    model.fit(*measured(NEW, 100, 8))
    assert share_in_order(model.expect(rows), cycles) > share_in_order(estimates, cycles)


def test_what_was_learned_first_is_kept():
    """The same model, with samples of the first task and without them."""
    columns, (rows, cycles) = columns_of(NEW), measured(NEW, 2000, 9)
    others = [rugged(*np.random.default_rng(seed).integers(20, 400, 3)) for seed in range(8)]

    def order(spaces) -> float:
        return share_in_order(learned(spaces).warm(columns).predict(rows), cycles)

    kept = order([NEW, *others])
    assert kept > order([NEW]) - 0.02
    assert kept > order(others)


def test_equal_seeds_give_equal_scores():
    rows, _ = measured(NEW, 100, 9)
    scores = [learned(KNOWN).warm(columns_of(NEW)).predict(rows) for _ in range(2)]
    assert np.array_equal(*scores)


def test_models_of_one_process_learn_the_same():
    transfer, columns = learned(KNOWN[:2]), columns_of(NEW)
    rows, cycles = measured(NEW, 60, 9)
    scores = []
    for _ in range(3):
        model = transfer.warm(columns)
        model.fit(rows, cycles)
        scores.append(model.predict(rows))
    assert (scores[0] == scores[1]).all()
    assert (scores[0] == scores[2]).all()


def test_tasks_with_other_features_share_a_model():
    transfer = learned(KNOWN)
    table = Small().all()
    small = shared_columns(Small(), table, machine=MACHINE)
    cycles = np.array(Small().measure(Small().configs(table)), dtype=float)
    transfer.learn("small", small, cycles)
    for columns in (small, columns_of(NEW)):
        assert np.isfinite(transfer.warm(columns).predict(np.arange(9))).all()


def trials_needed(search, limit: int = 400) -> int:
    target = 1.01 * NEW.true_cycles(NEW.all()).min()
    for trials in range(4, limit, 4):
        configs = search.propose(4)
        cycles = NEW.measure(configs)
        search.observe(configs, cycles)
        if min(cycles) <= target:
            return trials
    return limit


def test_a_warm_search_needs_a_fraction_of_the_measurements():
    columns = columns_of(NEW)
    warm, cold = (
        [trials_needed(Guided(NEW, model.warm(columns), seed=seed)) for seed in range(3)]
        for model in (learned(KNOWN), Transfer())
    )
    random = [trials_needed(Random(NEW, seed=seed)) for seed in range(3)]
    assert sum(warm) < sum(cold) and 5 * sum(warm) < sum(random), (warm, cold, random)


def test_a_task_keeps_its_fastest_and_a_spread_of_the_others():
    samples = Samples(per_task=10)
    cycles = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    samples.add("task", {REFERENCE: cycles, "x": cycles}, cycles)
    kept = samples.training(prior=False)
    assert len(samples) == 10 and kept.names == ("x",)
    assert sorted(kept.matrix[:, 0]) == [1, 2, 3, 4, 5, 6, 29, 53, 76, 100]


def test_samples_survive_in_a_file(tmp_path):
    transfer = learned(KNOWN)
    transfer.samples.save(tmp_path / "samples.npz")
    found = Samples.load(tmp_path / "samples.npz")
    assert found.tasks == ["task 0", "task 1", "task 2"] and len(found) == len(transfer.samples)
    columns, (rows, _) = columns_of(NEW), measured(NEW, 200, 9)
    again = Transfer(found).warm(columns).predict(rows)
    assert np.allclose(again, transfer.warm(columns).predict(rows), atol=0.01)
    Samples().save(tmp_path / "empty.npz")
    assert len(Samples.load(tmp_path / "empty.npz")) == 0


def test_files_that_hold_no_samples_are_refused(tmp_path):
    path = tmp_path / "samples.npz"
    learned(KNOWN[:1]).samples.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    message = re.escape("a model's samples must be a file that Daedal wrote, and ")
    with pytest.raises(TuningError, match=message):
        Samples.load(path)
    for content in (b"", b"{}", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(TuningError, match=message):
            Samples.load(path)
    np.savez(path, head=np.array("[]"), matrix=np.zeros((1, 1)), cycles=np.zeros(1))
    with pytest.raises(TuningError, match=message):
        Samples.load(path)
    np.savez(path, head=np.array([object()]), allow_pickle=True)
    with pytest.raises(TuningError, match=message):
        Samples.load(path)
