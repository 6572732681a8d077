"""Figures of layers with many products with padding: the same in all reports, and possible."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.inspection import inspect
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.reports import profile as profile_report
from daedal.reports import run as run_report
from daedal.reports.inspection import inspection_json
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.page import profile_page

EVERY = 16 * 16 * (8 * 7) ** 2
INSIDE = 16 * 16 * 44**2


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    """Two convolutions with windows of 7 x 7 that slide over 8 x 8 pixels."""
    rng = np.random.default_rng(7)
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 16, 8, 8)), 0.05, 0)
    for _ in range(2):
        weights = maker.weights(rng.integers(-127, 128, (16, 16, 7, 7)).astype(np.int8), 0.01)
        x = maker.requantized(maker.op("Conv", x, weights, pads=[3, 3, 3, 3]), 0.08, 0)
    return daedal.compile(maker.model(x).SerializeToString(), "vta")


@pytest.fixture(scope="module")
def profile(artifact: Artifact) -> NetworkProfile:
    return daedal.profile(artifact, device="timing")


def printed(table: Table) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return console.file.getvalue().splitlines()


def row(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.split()[:1] == [name])


def test_no_layer_does_more_than_the_array_can(profile: NetworkProfile) -> None:
    """With all products, the second layer would be above the peak."""
    assert profile.layers[1].cycles < EVERY / 256
    for item in profile.layers:
        assert (item.layer.macs, item.layer.needed_macs) == (EVERY, INSIDE)
        assert item.products * 256 == INSIDE
        assert item.ideal_cycles == INSIDE / 256
        assert item.share == INSIDE / 256 / item.cycles < 1
        assert item.reuse == INSIDE / item.bytes_moved
    assert profile.share == 2 * INSIDE / 256 / profile.cycles


def test_units_have_one_name_in_all_tables(profile: NetworkProfile) -> None:
    units = {unit.name.lower(): item.to_json() for unit, item in profile.units.items()}
    tables = (
        run_report.profile_table({"cycles": profile.cycles, "units": units}),
        profile_report.units_table("Units", profile.units),
    )
    ours, others = (
        [line.split()[0] for line in printed(table) if line.split()[-1:] and "%" in line]
        for table in tables
    )
    assert ours == others == [unit.name for unit in profile.units]


def test_reports_agree(artifact: Artifact, profile: NetworkProfile) -> None:
    left_out = f"without {2 * (EVERY - INSIDE):,} of {2 * EVERY:,} MACs, which are with padding"
    shares = [f"{100 * share:.1f} %" for share in (profile.layers[1].share, profile.share)]
    lines = printed(profile_report.layers_table(profile))
    assert shares[0] in row(lines, "conv22/Conv") and shares[1] in row(lines, "all")
    assert lines[-1].rstrip() == f"ideal, of peak, MACs/B: {left_out}"
    lines = printed(run_report.layers_table(profile.layers))
    assert shares[0] in row(lines, "conv22/Conv")
    busy = [
        100 * own.classes[CycleClass.BUSY] / max(1, own.cycles)
        for own in (profile.layers[1].units[unit] for unit in (Unit.GEMM, Unit.ALU, Unit.LOAD))
    ]
    assert re.findall(r"(\d+) %", row(lines, "conv22/Conv"))[1:] == [f"{x:.0f}" for x in busy]
    assert lines[-1].rstrip() == f"of peak: {left_out}"
    page = profile_page(profile)
    assert all(f"<td>{share}</td>" in page for share in shares)
    assert f"<b>{2 * (EVERY - INSIDE):,}</b>of them with padding" in page
    document = profile.to_json()
    assert document["share"] == profile.share
    assert (document["macs"], document["padding_macs"]) == (2 * EVERY, 2 * (EVERY - INSIDE))
    for figures, item in zip(document["layers"], profile.layers, strict=True):
        assert (figures["macs"], figures["padding_macs"]) == (EVERY, EVERY - INSIDE)
        assert figures["share"] == item.share
    parts = inspection_json(inspect(artifact, time_host=False))["parts"]
    (launch,) = (part for part in parts if part["kind"] == "launch")
    assert [layer["padding_macs"] for layer in launch["layers"]] == [EVERY - INSIDE] * 2


def test_a_layer_that_began_early_is_not_above_the_peak(profile: NetworkProfile) -> None:
    """It made products while the layer before was still storing: their cycles count."""
    (_, second) = profile.layers
    early = replace(second, cycles=1000, bytes_read=10_000)
    assert second.products > 1000 and early.share == 1
    assert early.rate == 256
    starved = replace(early, bytes_read=100_000)
    assert starved.rate == starved.reuse * starved.bus_bytes < 256


def test_layers_without_padding_need_no_caption(profile: NetworkProfile) -> None:
    layers = tuple(replace(x, layer=replace(x.layer, padding_macs=0)) for x in profile.layers)
    whole = replace(profile, layers=layers)
    assert profile_report.layers_table(whole).caption is None
    assert run_report.layers_table(layers).caption is None
    assert run_report.layers_table([]).caption is None
