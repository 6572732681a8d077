"""The bench of areas: which rows a file keeps, and that every alternative can be built."""

from typing import Any

from bench.area import BARS, ON_BOARD, merged
from bench.area_alternatives import ALTERNATIVES, STREAMS
from bench.unit_streams import unit_streams
from daedal.hw.synth.families import Family
from daedal.isa.variant import load_variant, shipped_variants


def row(variant: str, family: str, *, fits: bool = True) -> dict[str, Any]:
    return {"variant": variant, "family": family, "device": "d", "fits": fits}


def test_what_was_measured_replaces_what_was_there() -> None:
    old = {
        "missed": ["vta on d"],
        "area": [row("vta", "xc7", fits=False), row("tiny", "ecp5"), row("gone", "xc7")],
        "alternatives": [{"label": "as shipped"}],
    }
    new = {"missed": [], "area": [row("vta", "xc7"), row("int4", "xc7")]}
    assert merged(old, new) == {
        "missed": [],
        "area": [row("int4", "xc7"), row("tiny", "ecp5"), row("vta", "xc7")],
        "alternatives": [{"label": "as shipped"}],
    }
    assert merged({}, new) == new | {"area": new["area"][::-1]}


def test_a_miss_that_was_not_measured_again_stays() -> None:
    old = {"missed": ["vta on d"], "area": [row("vta", "xc7", fits=False)]}
    whole = merged(old, {"missed": [], "area": [row("ecp5", "xc7", fits=False)]})
    assert whole["missed"] == ["vta on d"]  # ecp5 is for the other family


def test_every_alternative_is_another_machine_with_the_same_work() -> None:
    vta = load_variant(ON_BOARD[0])
    machines = [alternative.of(vta) for alternative in ALTERNATIVES]
    assert machines[0] == vta
    assert len({machine.fingerprint for machine in machines}) == len(ALTERNATIVES) >= 4
    for machine in machines:
        assert {stream.name for stream in unit_streams(machine)} >= set(STREAMS)


def test_bars_are_about_shipped_variants() -> None:
    assert {name for name, _ in BARS} <= set(shipped_variants())
    assert ("vta", Family.XC7) in BARS and ("ecp5", Family.ECP5) in BARS
