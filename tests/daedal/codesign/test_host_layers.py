"""Layers on the host cost no cycles: a variant that leaves some there must not look fast."""

from pathlib import Path

import pytest

from daedal.codesign.compare import compare
from daedal.codesign.cycles.counting import Network, count_network, count_networks
from daedal.codesign.cycles.host_shares import host_share
from daedal.codesign.search.evaluator import Evaluator
from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.common.errors import ExploreError
from daedal.host.rates import DEFAULT, load_host_rates
from daedal.hw.synth.families import Family
from daedal.isa.variant import load_variant
from daedal.reports.comparison import comparison_json, comparison_lines, comparison_tables
from daedal.reports.console import make_console

MODEL = (Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx").read_bytes()
RUNS = load_variant("ecp5_half")
LEAVES = RUNS.replace("leaves", acc_bytes=128)  # windows of pools do not fit
PARAMETERS = {**DEFAULT_PARAMETERS, "acc_bytes": (128, 4_096, 65_536)}
MOVED = {"maxpool0", "avgpool0", "flatten0", "fc0"}


def test_the_counted_step_refuses_it_as_the_estimate_does() -> None:
    space = VariantSpace(RUNS, PARAMETERS)
    point = space.point(LEAVES)
    assert point is not None
    evaluator = Evaluator(space, {"digits": Network(MODEL)}, Family.ECP5, mhz=100.0)
    assert evaluator.estimate([point]) == [None]
    assert count_networks({"digits": Network(MODEL)}, LEAVES, "ddr") is None
    with pytest.raises(
        ExploreError, match=r"'leaves' leaves 3 to the host, such as .*'maxpool0_q'"
    ):
        count_network(MODEL, LEAVES, "ddr")


def test_what_the_base_leaves_to_the_host_is_allowed() -> None:
    """With a base that cannot run them either, no result runs them."""
    share = host_share(MODEL, LEAVES, load_host_rates(DEFAULT))
    assert share is not None
    network = Network(MODEL, share.tensors)
    assert network.on_host == {"maxpool0_q", "avgpool0_q", "fc0_q"}
    counted = count_networks({"digits": network}, LEAVES, "ddr")
    assert counted is not None
    assert counted.cycles == {"digits": count_network(MODEL, LEAVES, "ddr", network.on_host)}
    space = VariantSpace(LEAVES, PARAMETERS)
    point = space.point(LEAVES)
    assert point is not None
    evaluator = Evaluator(space, {"digits": network}, Family.ECP5, mhz=100.0)
    assert evaluator.estimate([point]) != [None]


def test_the_comparison_tells_of_it() -> None:
    found = compare([RUNS, LEAVES], {"digits": MODEL}, host=DEFAULT)
    runs, leaves = (item.networks["digits"] for item in found)
    assert {item.node for item in leaves.on_host} - {item.node for item in runs.on_host} == MOVED
    (line,) = (line for line in comparison_lines(found) if "to the host" in line)
    assert line.startswith("leaves leaves layers of digits to the host")
    assert set(line.partition("runs them: ")[2].split(", ")) == MOVED
    console = make_console()
    with console.capture() as captured:
        for table in comparison_tables(found):
            console.print(table, width=200)
    text = captured.get()
    assert "on the host" in text and "MaxPool" in text and "Gemm" in text
    _, data = comparison_json(found)
    assert {item["node"] for item in data["networks"]["digits"]["on_host"]} >= MOVED
    # Of one alone there is nothing to compare with.
    assert not [line for line in comparison_lines(found[:1]) if "to the host" in line]
