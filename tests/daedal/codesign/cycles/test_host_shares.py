"""What the host computes of a network, by the options of a variant."""

from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.codesign.cycles import host_shares as host_shares_module
from daedal.codesign.cycles.counting import Network, count_networks
from daedal.codesign.cycles.host_shares import host_shares
from daedal.codesign.search.evaluator import Evaluator
from daedal.codesign.search.variant_space import VariantSpace
from daedal.compiler.targets.capabilities import Capabilities
from daedal.host.rates import DEFAULT, load_host_rates
from daedal.hw.synth.families import Family
from daedal.isa.variant import load_variant
from daedal.tuning.whole_network import WholeNetwork

RATES = load_host_rates(DEFAULT)
ROWS = {"tables": 4, "lane_reductions": True, "wide_requantize": True}
PLAIN = load_variant("ecp5")
ABLE = PLAIN.replace(None, **ROWS)


@cache
def network() -> bytes:
    """Two products with a softmax between them, which only some variants compute."""
    rng = np.random.default_rng(1)
    model = QdqModel(opset=21)
    x = model.requantized(model.input("x", (32, 64)), 0.05, 0)
    for number in range(2):
        weights = rng.integers(-127, 128, (64, 64)).astype(np.int8)
        y = model.op("MatMul", x, model.weights(weights, 1e-3))
        x = model.requantized(y, 0.05, 0, output=f"product{number}")
        if number == 0:
            soft = model.op("Softmax", x, axis=-1)
            x = model.requantized(soft, 1 / 256, -128, output="soft")
    return onnx.ModelProto.SerializeToString(model.model(x))


def test_options_take_layers_from_the_host() -> None:
    found = host_shares(network(), VariantSpace.around(PLAIN), RATES)
    plain, able = (found[Capabilities.of(item)] for item in (PLAIN, ABLE))
    assert len(plain.nodes) == 1 and not able.nodes
    assert plain.ms > able.ms > 0


def test_a_base_with_options_may_lose_none_that_a_network_needs() -> None:
    found = host_shares(network(), VariantSpace.around(ABLE), RATES)
    assert Capabilities.of(PLAIN) not in found
    tensors = {able: share.tensors for able, share in found.items()}
    known = Network(network(), tensors[Capabilities.of(ABLE)], tensors)
    assert count_networks({"net": known}, PLAIN, "ddr") is None
    space = VariantSpace.around(ABLE)
    points = [space.point(item) for item in (ABLE, PLAIN)]
    evaluator = Evaluator(space, {"net": known}, Family.ECP5, mhz=100.0)
    there, refused = evaluator.estimate([point for point in points if point is not None])
    assert there is not None and refused is None


def test_estimates_have_the_time_of_the_host_that_belongs_to_their_options() -> None:
    space = VariantSpace.around(PLAIN)
    shares = host_shares(network(), space, RATES)
    tensors = {able: share.tensors for able, share in shares.items()}
    evaluator = Evaluator(
        space,
        {"net": Network(network(), tensors[Capabilities.of(PLAIN)], tensors)},
        Family.ECP5,
        mhz=100.0,
        host_ms={"net": {able: share.ms for able, share in shares.items()}},
    )
    points = [space.point(item) for item in (PLAIN, ABLE)]
    plain, able = evaluator.estimate([point for point in points if point is not None])
    assert plain is not None and able is not None
    assert plain.host_ms["net"] > able.host_ms["net"]
    assert able.cycles["net"] > plain.cycles["net"]  # softmax costs cycles, too


@pytest.mark.parametrize("base", [PLAIN, ABLE], ids=["plain", "able"])
def test_a_network_without_such_layers_is_compiled_twice_at_most(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    class Counted(WholeNetwork):
        def __init__(self, *given: Any) -> None:
            compiled.append(given)
            super().__init__(*given)

    monkeypatch.setattr(host_shares_module, "WholeNetwork", Counted)
    model = QdqModel()
    x = model.requantized(model.input("x", (16, 16)), 0.05, 0)
    y = model.op("MatMul", x, model.weights(np.ones((16, 16), np.int8), 1e-3))
    plain = onnx.ModelProto.SerializeToString(model.model(model.requantized(y, 0.05, 0)))
    found = host_shares(plain, VariantSpace.around(base), RATES)
    assert len(compiled) <= 2
    assert len(found) == 5 and not any(share.nodes for share in found.values())
