"""Host time and images of a compiled model."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.compiler.targets.crossings import HostRates
from daedal.host.time import host_seconds, items_of


def compiled(batch: int, *, on_host: bool = False) -> Artifact:
    """A convolution, with an Erf after it that the host computes."""
    net = QdqModel()
    x = net.requantized(net.input("x", (batch, 8, 4, 4)), 0.05, 0)
    values = np.ones((8, 8, 1, 1), np.int8)
    y = net.requantized(net.op("Conv", x, net.weights(values, 0.01)), 0.05, 0)
    if on_host:
        y = net.op("Erf", y)
    return daedal.compile(net.model(y).SerializeToString(), "tiny", cpu_levels=())


RATES = HostRates(launch_cycles=1000, bytes_per_cycle=1, macs_per_cycle=1e9, elements_per_cycle=1)


def test_what_the_host_takes() -> None:
    plain, more = compiled(1), compiled(1, on_host=True)
    seconds = host_seconds(plain, RATES)
    # One launch; 8 x 4 x 4 bytes in and out.
    assert seconds >= (1000 + 2 * 128) / 100e6
    assert host_seconds(more, RATES) == pytest.approx(seconds + 128 / 100e6, rel=0.2)
    fast = HostRates(1, 1e9, 1e9, 1e9)
    assert host_seconds(plain, fast) < seconds / 100


def test_images_of_a_run() -> None:
    assert [items_of(compiled(batch)) for batch in (1, 4)] == [1, 4]
