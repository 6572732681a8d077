"""The short report of a compile: shares, launches and reasons."""

from dataclasses import replace
from pathlib import Path

import pytest

import daedal
from daedal.artifact.artifact import Artifact, Placement
from daedal.reports.artifact import share_of_macs, summary_lines

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return daedal.compile(DIGITS, "tiny", to_tensors=["conv0_q"])


def placed(number: int, where: str, why: str, macs: int | None = 0) -> Placement:
    return Placement(f"n{number}", "Conv", f"t{number}", where, why, macs, part=number)


def test_reasons_that_differ_in_figures_are_one(artifact: Artifact) -> None:
    reasons = ["far: 1,200 bytes"] * 2 + ["far: 7 bytes", "far: 99.5 bytes", "foreign"]
    host = [placed(number, "host", why, 10) for number, why in enumerate(reasons)]
    everything = (placed(9, "accelerator", "", 150), *host, placed(10, "folded", "", 99))
    report = replace(artifact, placements=everything)
    assert share_of_macs(report) == 0.75
    assert summary_lines(report) == [
        "75.0 % of 200 multiply-accumulates on the accelerator, one layer in one launch",
        "on the host: 4 nodes (Conv): far: 7 to 1,200 bytes",
        "on the host: Conv 'n4': foreign",
    ]


def test_reasons_that_differ_in_digits_of_names_say_so(artifact: Artifact) -> None:
    reasons = ("it reads 'x1', which has 3 parts", "it reads 'x2', which has 3 parts")
    host = [placed(number, "host", why) for number, why in enumerate(reasons)]
    assert summary_lines(replace(artifact, placements=tuple(host)))[1:] == [
        "on the host: Conv 'n0', Conv 'n1': it reads 'x1', which has 3 parts (names of the first)"
    ]


def test_nothing_to_multiply(artifact: Artifact) -> None:
    assert share_of_macs(replace(artifact, placements=())) == 1


def test_a_number_that_nobody_knows_is_in_no_share(artifact: Artifact) -> None:
    """A loop may run any number of times; where the nodes are folded, that is no matter."""
    items = (placed(0, "accelerator", "", 150), placed(1, "host", "slow", 7))
    report = replace(artifact, placements=(*items, placed(2, "host", "foreign", None)))
    assert share_of_macs(report) is None
    assert summary_lines(report)[:2] == [
        "150 multiply-accumulates on the accelerator, one layer in one launch",
        "7 multiply-accumulates on the host, and those of Conv 'n2': how many they are is not "
        "known",
    ]
    assert Artifact.from_bytes(report.to_bytes()) == report
    folded = replace(artifact, placements=(*items, placed(2, "folded", "", None)))
    assert share_of_macs(folded) == 150 / 157
