"""What `inspect` counts, measures and shares out."""

import io
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from rich.console import Console

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, HostPart
from daedal.inspection import HostReport, Inspection, LaunchReport, inspect
from daedal.isa.table import BASES
from daedal.reports.artifact import share_of_macs
from daedal.reports.inspection import _names, inspection_json, print_inspection
from tests.support.small_networks import island

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def digits() -> Artifact:
    return daedal.compile(DIGITS, "tiny")


def test_a_launch_is_what_the_cycle_model_and_the_program_say(digits: Artifact) -> None:
    report = inspect(digits, mhz=50)
    (launch,) = report.launches
    profile = daedal.profile(digits, device="timing")
    assert launch.cycles == profile.cycles
    assert launch.seconds == pytest.approx(profile.cycles / 50e6)
    assert [item.profile and item.profile.cycles for item in launch.layers] == [
        item.cycles for item in profile.layers
    ]
    program = digits.program
    # All but FINISH belong to a layer.
    assert sum(item.num_instructions for item in launch.layers) == len(program.instructions) - 1
    assert launch.num_tokens == sum(item.push.bit_count() for item in program.instructions)
    assert 0 < launch.workspace_needed_bytes <= program.region_bytes[BASES.index("workspace")]


def test_shares_of_time_sum_to_what_the_parts_take(digits: Artifact) -> None:
    report = inspect(digits)
    check_shares(report)
    kinds = [type(part) for part in report.parts]
    assert kinds == [HostReport, LaunchReport, HostReport]
    assert all(part.seconds is not None and part.seconds > 0 for part in report.parts)


def check_shares(report: Inspection) -> None:
    """Shares of nodes, summed over the host and over each launch, are those of the parts."""
    assert report.seconds is not None
    for number, part in enumerate(report.parts):
        assert part.seconds is not None
        found = sum(
            item.share_of_time or 0 for item in report.nodes if item.placement.part == number
        )
        expected = part.seconds
        if isinstance(part, LaunchReport):
            counted = sum(item.profile.cycles for item in part.layers if item.profile is not None)
            expected = counted / (1e6 * report.mhz)
        assert found == pytest.approx(expected / report.seconds)
    assert sum(item.share_of_macs for item in report.nodes) == pytest.approx(1)


def test_every_node_has_its_place(digits: Artifact) -> None:
    """Nodes of one fused layer name it, and its time stands at the one with the most MACs."""
    report = inspect(digits)
    model = onnx.load(DIGITS)
    assert [item.placement.op for item in report.nodes] == [x.op_type for x in model.graph.node]
    by_node = {item.placement.node: item for item in report.nodes}
    fused = [by_node[name] for name in ("conv2", "add0_linear", "add0")]
    assert {(item.placement.where, item.placement.layer) for item in fused} == {
        ("accelerator", "add0_q")
    }
    assert [item.share_of_time is None for item in fused] == [False, True, True]
    assert fused[0].share_of_macs == pytest.approx(147_456 / 379_136)
    layers = {item.placement.layer for item in report.nodes} - {""}
    assert layers == {layer.output for layer in digits.layers}
    softmax = by_node["probabilities"].placement
    assert (softmax.where, softmax.part) == ("host", 2)
    folded = by_node["conv0.weight_dq"]
    assert (folded.placement.where, folded.placement.part) == ("folded", None)
    assert folded.share_of_time is None


def test_an_island_of_the_host(rng: np.random.Generator) -> None:
    artifact = daedal.compile(island(rng).SerializeToString(), "tiny")
    report = inspect(artifact)
    check_shares(report)
    assert len(report.launches) == 2
    (sigmoid,) = (item.placement for item in report.nodes if item.placement.op == "Sigmoid")
    assert isinstance(report.parts[sigmoid.part or 0], HostReport)
    launches = [n for n, part in enumerate(report.parts) if isinstance(part, LaunchReport)]
    convolutions = [item.placement for item in report.nodes if item.placement.op == "Conv"]
    assert [item.part for item in convolutions] == launches


def test_without_a_stopwatch(digits: Artifact) -> None:
    report = inspect(digits, time_host=False)
    assert report.seconds is None
    assert all(item.share_of_time is None for item in report.nodes)
    assert report.launches[0].cycles > 0


def test_a_part_of_the_host_that_fails_on_zeros(digits: Artifact) -> None:
    """Its time is unknown, and so are all shares of time."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> '
        "broken (float[1, 10] y, float[3, 3] w) => (float[M, N] z) { z = MatMul(y, w) }"
    )
    parts = (*digits.parts, HostPart(model.SerializeToString()))
    report = inspect(Artifact(parts, digits.inputs, digits.outputs, digits.placements))
    assert report.parts[-1].seconds is None and report.seconds is None
    assert all(part.seconds is not None for part in report.parts[:-1])


def followed(rng: np.random.Generator, op: str) -> onnx.ModelProto:
    """A convolution, and an LSTM over the rows of its map, or a sum of threefold products."""
    maker = QdqModel(17)
    x = maker.requantized(maker.input("x", (1, 4, 6, 6)), 0.05, 3)
    weights = maker.weights(rng.integers(-127, 128, (4, 4, 1, 1)).astype(np.int8), 0.01)
    y = maker.requantized(maker.op("Conv", x, weights), 0.08, 3)
    if op == "Einsum":
        return maker.model(maker.op("Einsum", y, y, y, equation="abij,abjk,abkl->abil"))
    rows = maker.op("Reshape", y, maker.constant(np.array([6, 1, 24])))
    gates = [rng.normal(size=(1, 20, n)).astype(np.float32) for n in (24, 5)]
    return maker.model(maker.op("LSTM", rows, *map(maker.constant, gates), hidden_size=5))


def test_products_of_the_host_count(rng: np.random.Generator) -> None:
    """An LSTM with six steps of 20 * (24 + 5) products, and a convolution with 576."""
    artifact = daedal.compile(followed(rng, "LSTM").SerializeToString(), "tiny")
    assert share_of_macs(artifact) == 576 / (576 + 6 * 20 * 29)
    report = inspect(artifact, time_host=False)
    shares = {item.placement.op: item.share_of_macs for item in report.nodes}
    assert shares["LSTM"] == 3480 / (576 + 3480)


def test_products_that_nobody_can_count(rng: np.random.Generator) -> None:
    artifact = daedal.compile(followed(rng, "Einsum").SerializeToString(), "tiny")
    assert share_of_macs(artifact) is None
    report = inspect(artifact, time_host=False)
    assert {item.share_of_macs for item in report.nodes} == {None}
    nodes = {item["op"]: item for item in inspection_json(report)["nodes"]}
    assert (nodes["Einsum"]["macs"], nodes["Conv"]["macs"]) == (None, 576)
    console = Console(file=io.StringIO(), width=200)
    print_inspection(console, report)
    rows = [line.split() for line in console.file.getvalue().splitlines()]
    assert [row[-2:] for row in rows if row[1:2] == ["Einsum"]] == [["not", "known"]]
    assert [row[-1] for row in rows if row[1:3] == ["Conv", "accelerator"]] == ["576"]


def test_a_tensor_that_is_bound_twice_is_named_once() -> None:
    assert _names(["x", "x", "y"]) == "x, y"
    assert _names(["x", "y", "x", "z"]) == "x, y and 1 more"
