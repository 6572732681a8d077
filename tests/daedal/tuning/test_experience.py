"""`Experience`: what one run measures guides the next one, on another variant, too."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bench.tuning.searches.exhaustive import Exhaustive
from daedal.common.errors import TuningError
from daedal.compiler.layers.features import layer_columns
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.features import analytic
from daedal.compiler.tune.surrogate import TRUST
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant
from daedal.tuning.accelerator import variant_place
from daedal.tuning.experience import Experience
from daedal.tuning.target import Setting
from daedal.tuning.task import Known, Task
from tests.support.conv_nodes import conv_layer

TINY = load_variant("tiny")


def _measured(variant: Variant, count: int) -> Task:
    """A task whose cycles are twice the estimate where the tile is high, and the estimate else."""
    graph, node = conv_layer(variant)
    space = space_of(graph, node, variant)
    assert space is not None
    table = space.all()
    estimates = np.exp(analytic(layer_columns(space, table, variant, PRESETS["ddr"])))
    cycles = np.where(table["height"] > 4, 2 * estimates, estimates).astype(int)
    known = Known(dict(zip(space.configs(table)[:count], cycles[:count].tolist(), strict=True)))
    columns = partial(layer_columns, space, variant=variant, memory=PRESETS["ddr"])
    workload = workload_of(graph, node)
    return Task(["y"], space, lambda _: [], Exhaustive(space), workload, known, columns=columns)


def test_what_was_learned_orders_the_configurations_of_another_variant(tmp_path: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    path = tmp_path / "records.db.samples"
    with Database(tmp_path / "records.db") as database:
        Experience(path).learn([_measured(TINY, 10_000)], Setting(variant_place(TINY), database))
    vta = load_variant("vta")
    task = _measured(vta, 0)
    table = task.space.all()
    columns = layer_columns(task.space, table, vta, PRESETS["ddr"])
    high = table["height"] > 4
    rows = np.arange(len(high))
    # Of what was taught, a search that has measured nothing believes the share `TRUST`.
    learned, nothing = (
        np.exp((item.model(columns).predict(rows) - analytic(columns)) / TRUST)
        for item in (Experience(path), Experience())
    )
    # XGBoost sums in an order that depends on the processor: 1.19 on one, more on another.
    apart = 1.1
    assert learned[high].min() > apart * learned[~high].max()
    assert np.median(learned[high]) > 1.8 * np.median(learned[~high]), "twice as many were measured"
    assert nothing[high].min() < apart * nothing[~high].max(), (
        "nothing was learned without the file"
    )


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    path = tmp_path / "records.db.samples"
    path.write_bytes(b"PK damaged")
    with pytest.raises(TuningError, match="samples must be a file that Daedal wrote"):
        Experience(path)
