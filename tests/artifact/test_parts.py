"""Placements in a manifest: what is written is read back, and nothing else is taken."""

import dataclasses

import pytest

from daedal.artifact.parts import PLACES, Placement, placement_from_json

PLACEMENT = Placement("n", "Conv", "t", PLACES[0], "why", 12, part=0, layer="l")


@pytest.mark.parametrize("part", [None, 0, 3])
@pytest.mark.parametrize("where", PLACES)
def test_placements_are_read_back(part: int | None, where: str) -> None:
    placement = dataclasses.replace(PLACEMENT, part=part, where=where)
    assert placement_from_json(dataclasses.asdict(placement)) == placement


@pytest.mark.parametrize(
    "change", [{"where": "elsewhere"}, {"macs": -1}, {"part": -1}, {"part": True}, {"op": "a\n"}]
)
def test_other_placements_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        placement_from_json({**dataclasses.asdict(PLACEMENT), **change})
