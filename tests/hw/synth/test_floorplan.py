"""Plans of hard blocks: what pulls them together, and that what is pulled lies near."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daedal.hw.synth.families import DEVICES, Family
from daedal.hw.synth.floorplan import SITES, assign_sites, couplings, floorplans
from daedal.hw.synth.tools import NEXTPNR, run_tool
from tests.support.small_netlist import needs_nextpnr

Cells = dict[str, dict[str, Any]]


def cells_of(nets: list[list[str]], **attributes: str) -> Cells:
    """Cells by the pins' names in `nets`: ``m`` multipliers, ``r`` block RAMs, others logic."""
    kinds = {"m": "MULT18X18D", "r": "DP16KD"}
    cells: Cells = {}
    for bit, net in enumerate(nets, start=2):
        for name in net:
            kind = kinds.get(name[0], "LUT4")
            cell = cells.setdefault(name, {"type": kind, "connections": {}, "attributes": {}})
            cell["connections"][f"P{bit}"] = [bit, "0"]
    for name, value in attributes.items():
        cells[name]["attributes"]["LOC"] = value
    return cells


def test_sites_are_the_devices() -> None:
    device = DEVICES[Family.ECP5]
    assert len(set(SITES["MULT18X18D"])) == len(SITES["MULT18X18D"]) == device.dsp
    assert len(set(SITES["DP16KD"])) == len(SITES["DP16KD"]) == device.block_ram


@pytest.mark.parametrize(
    ("nets", "conductance"),
    [
        ([["m0", "m1"]], 1.0),
        ([["m0", "m1"], ["m1", "m0"]], 2.0),  # two wires
        ([["m0", "a"], ["a", "b"], ["b", "m1"]], 1 / 3),  # by way of two cells
        ([["m0", "a"], ["a", "m1"], ["m0", "b"], ["b", "m1"]], 1.0),  # two ways
        ([["m0", "m1", "a"]], 1 / 3),  # a star of three: two arms in series
        ([["m0", "a"], ["b", "m1"]], 0.0),  # no way
    ],
)
def test_couplings_are_effective_conductances(nets: list[list[str]], conductance: float) -> None:
    matrix = couplings(cells_of(nets), ["m0", "m1"])
    assert matrix == pytest.approx(np.array([[0, conductance], [conductance, 0]]), abs=3e-3)


def test_blocks_on_a_random_network_conduct_as_its_inverse(rng: np.random.Generator) -> None:
    """Against the dense reduction of the same network, with nets of any size."""
    names = ["m0", "m1", "r0", "r1", *(f"x{n}" for n in range(30))]
    nets = [
        [str(name) for name in rng.choice(names, size, replace=False)]
        for size in rng.integers(2, 6, 80)
    ]
    cells = cells_of([["m0", "x0"], *nets])
    blocks = [name for name in cells if name[0] in "mr"]
    size = len(cells) + sum(len(net) > 2 for net in nets)
    number = {name: n for n, name in enumerate(cells)}
    network = np.zeros((size, size))
    star = len(cells)
    for net in [["m0", "x0"], *nets]:
        ends = [(number[net[0]], number[net[1]], 1.0)]
        if len(net) > 2:
            ends = [(number[name], star, 2 / len(net)) for name in net]
            star += 1
        for a, b, value in ends:
            network[a, b] += value
            network[b, a] += value
    fixed = [number[name] for name in blocks]
    free = [n for n in range(size) if n not in fixed]
    laplacian = np.diag(network.sum(axis=1)) - network
    inner = laplacian[np.ix_(free, free)] + 1e-3 * np.eye(len(free))
    across = laplacian[np.ix_(free, fixed)]
    expected = across.T @ np.linalg.solve(inner, across) - laplacian[np.ix_(fixed, fixed)]
    np.fill_diagonal(expected, 0)
    assert couplings(cells, blocks) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_partners_lie_side_by_side() -> None:
    """Thirty pairs of a multiplier and a block RAM: in rows 12 apart, and in the same columns."""
    kinds = ["MULT18X18D"] * 30 + ["DP16KD"] * 30
    pull = np.zeros((60, 60))
    for number in range(30):
        pull[number, number + 30] = pull[number + 30, number] = 10.0
    for seed in (1, 2):
        sites = assign_sites(kinds, pull, seed)
        assert len(set(sites)) == 60
        assert all(site in SITES[kind] for kind, site in zip(kinds, sites, strict=True))
        apart = [
            abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in zip(sites[:30], sites[30:], strict=True)
        ]
        assert np.mean(apart) < 16
        assert sites == assign_sites(kinds, pull, seed)
    assert assign_sites(kinds, pull, 1) != assign_sites(kinds, pull, 2)


@pytest.mark.slow
def test_a_full_device_has_a_site_for_each() -> None:
    kinds = [kind for kind, sites in SITES.items() for _ in sites]
    pull = np.ones((len(kinds), len(kinds))) - np.eye(len(kinds))
    assert Counter(assign_sites(kinds, pull, 1)) == Counter(
        site for sites in SITES.values() for site in sites
    )


def test_plans_leave_alone_what_nothing_pulls_and_what_has_a_site() -> None:
    nets = [["m0", "a"], ["a", "r0"], ["m1", "b"], ["m2", "r0"], ["r1", "r0"]]
    (plan, other) = floorplans(cells_of(nets, r1="X4/Y22/EBR0"), [1, 2])
    assert set(plan) == set(other) == {"m0", "r0", "m2"}
    assert floorplans(cells_of([["m0", "a"]]), [1]) == [{}]


def test_more_blocks_than_sites_have_no_plan() -> None:
    names = [f"m{number}" for number in range(157)]
    assert floorplans(cells_of([[*names, "r0"]]), [1]) == [{}]


@pytest.mark.fpga
@pytest.mark.slow
@needs_nextpnr
def test_nextpnr_knows_every_site(tmp_path: Path) -> None:
    """A block on each, by its name: the device is full, and the placer has nothing to choose."""
    pins = {"MULT18X18D": ("A0", "P0"), "DP16KD": ("CLKA", "DOA0")}
    cells = {
        f"{kind}{number}": {
            "type": kind,
            "parameters": {},
            "attributes": {"BEL": f"X{column}/Y{row}/{name}"},
            "port_directions": dict(zip(pins[kind], ("input", "output"), strict=True)),
            "connections": dict(
                zip(pins[kind], ([2], [3 + 156 * (kind == "DP16KD") + number]), strict=True)
            ),
        }
        for kind, sites in SITES.items()
        for number, (column, row, name) in enumerate(sites)
    }
    ports = {"clk": {"direction": "input", "bits": [2]}}
    top = {"attributes": {"top": "1"}, "ports": ports, "cells": cells, "netnames": {}}
    design = {"creator": "", "modules": {"top": top}}
    (tmp_path / "design.json").write_text(json.dumps(design), encoding="utf-8")
    part = ("--85k", "--package", "CABGA381", "--out-of-context")
    run_tool(NEXTPNR, [*part, "--json", "design.json", "--no-route"], tmp_path)
