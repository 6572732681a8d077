"""Profiles of networks with several launches: the launches one behind the other."""

import json

import numpy as np

import daedal
from daedal.artifact.artifact import Artifact
from daedal.isa.table import Unit
from daedal.runtime.profiler.chrome_trace import chrome_trace
from daedal.runtime.profiler.page import profile_page
from daedal.runtime.profiler.reader import read_profile
from tests.support.small_networks import island


def test_launches_follow_each_other(rng: np.random.Generator) -> None:
    model = island(rng).SerializeToString()
    artifact = daedal.compile(model, "tiny")
    assert len(artifact.launches) == 2
    whole = daedal.profile(artifact, device="timing", timeline=True, name="two")
    alone = [
        daedal.profile(Artifact.of_launch(launch), device="timing", timeline=True)
        for launch in artifact.launches
    ]
    assert whole.cycles == sum(item.cycles for item in alone)
    assert whole.units[Unit.LOAD].work == sum(item.units[Unit.LOAD].work for item in alone)
    assert [item.layer.tag for item in whole.layers] == list(range(len(artifact.layers)))
    assert [item.cycles for item in whole.layers] == [
        item.cycles for profile in alone for item in profile.layers
    ]

    assert whole.timeline is not None
    spans = whole.timeline.layer_spans()
    assert [span.tag for span in spans] == [item.layer.tag for item in whole.layers]
    first, second = (item.timeline for item in alone)
    assert first is not None and second is not None
    assert whole.timeline.cycles == first.cycles + second.cycles
    lane = whole.timeline.lane(Unit.STORE)
    assert len(lane) == len(first.lane(Unit.STORE)) + len(second.lane(Unit.STORE))
    later = lane[len(first.lane(Unit.STORE))]
    number = len(artifact.launches[0].program.instructions)
    assert later.begin >= first.cycles and later.instruction >= number
    instructions = [item.instruction for item in whole.timeline.intervals]
    assert len(set(instructions)) == len(instructions)

    assert read_profile(json.dumps(whole.to_json())) == whole
    assert "second" in profile_page(whole)
    assert chrome_trace(whole)["otherData"]["cycles"] == whole.cycles
