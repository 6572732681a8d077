"""The bench of the compiler's rate, on a tiny network."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from bench.kit_speed.compile_rate import candidate_rates, main, network_seconds
from bench.qdq_model import QdqModel
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


def chain(*channels: int) -> bytes:
    """A model of 3x3 convolutions, one after the other."""
    rng = np.random.default_rng(1)
    model = QdqModel()
    x = model.requantized(model.input("image", (1, channels[0], 8, 8)), 0.05, 3)
    for inner, outer in pairwise(channels):
        values = rng.integers(-127, 128, (outer, inner, 3, 3), dtype=np.int8)
        weights = model.weights(values, np.full(outer, 0.01, dtype=np.float32))
        y = model.op("Conv", x, weights, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = model.requantized(y, 0.05, -5)
    return model.model(x).SerializeToString()


def test_rates_and_seconds() -> None:
    said: list[str] = []
    first, drawn = candidate_rates(chain(8, 8, 16), "a chain", TINY, 2, said.append)
    assert first.workload == "a chain, ranked first" and drawn.workload == "a chain, drawn"
    assert first.median > 0 and drawn.median > 0 and len(said) == 2
    cold, unchanged, changed = network_seconds(chain(8, 8, 16), "a chain", TINY, 2, said.append)
    assert [len(item.values) for item in (cold, unchanged, changed)] == [2, 2, 2]
    assert all(item.less_is_better and item.on_processor for item in (cold, unchanged, changed))


def test_unknown_networks_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compile_rate.py", "lenet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "networks must be some of" in capsys.readouterr().err
