"""What shows without a value: a real observation, altered so that one thing is wrong with it."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from bench.correctness.rtl_launches import CACHE, placed
from daedal.common.errors import ToolError
from daedal.isa.instruction import units_of
from daedal.isa.random_programs import random_program
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.sim.rtl.job import RawResult
from daedal.sim.rtl.launch import Launch
from daedal.sim.rtl.observer import Events, Observation, observe_launch
from daedal.sim.rtl.toolchain import find_icarus
from daedal.sim.trace.difference import Difference, Kind
from daedal.sim.trace.timeline import Timeline
from daedal.sim.trace.trace import trace_observation

# One worker builds the machines that these tests share.
pytestmark = [pytest.mark.rtl, pytest.mark.slow, pytest.mark.xdist_group("trace-rtl")]


@dataclasses.dataclass(frozen=True)
class Run:
    """A launch, and what the machine did."""

    launch: Launch
    result: RawResult
    observation: Observation

    def difference(self, observation: Observation, **result: object) -> Difference:
        """What a trace says of another observation."""
        raw = dataclasses.replace(self.result, **result)
        found = trace_observation(self.launch, raw, observation).difference
        assert found is not None
        return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    try:
        find_icarus()
    except ToolError as error:
        pytest.skip(str(error))
    launch = placed(random_program(load_variant("tiny"), 5, length=12))
    folder = tmp_path_factory.mktemp("observed")
    return Run(
        launch,
        *observe_launch(
            launch, cache_dir=CACHE, work_dir=folder, simulator="icarus", assertions=True
        ),
    )


def changed(events: dict[Unit, Events], unit: Unit, **columns: np.ndarray) -> dict[Unit, Events]:
    return {**events, unit: dataclasses.replace(events[unit], **columns)}


def test_nothing_is_wrong_as_it_is(run: Run) -> None:
    trace = trace_observation(run.launch, run.result, run.observation)
    assert trace.difference is None
    timeline = Timeline(run.launch, run.result, run.observation)
    assert timeline.first_misstep() is None
    assert timeline.early == []
    for number in timeline.started:
        begin, end = timeline.window(number)
        assert begin < end
        assert timeline.started[number] < timeline.done[number] == end


def test_a_start_before_its_token_differs_although_no_byte_does(run: Run) -> None:
    timeline = Timeline(run.launch, run.result, run.observation)
    number, item = next(
        (n, item)
        for n, item in enumerate(run.launch.program.instructions)
        if item.unit is Unit.GEMM and Unit.LOAD in units_of(item.pop)
    )
    issues = run.observation.issues
    cycles = issues[item.unit].cycles.copy()
    cycles[timeline.numbers[item.unit].index(number)] = 1
    altered = dataclasses.replace(run.observation, issues=changed(issues, item.unit, cycles=cycles))
    difference = run.difference(altered)
    assert (difference.kind, difference.instruction, difference.cycle) == (Kind.EARLY, number, 1)
    assert "has to wait for the token of instruction" in difference.sentence
    assert difference.races


def test_an_instruction_out_of_order(run: Run) -> None:
    retires = run.observation.retires
    indexes = retires[Unit.LOAD].indexes.copy()
    expected = int(indexes[2])
    indexes[2] += 1
    altered = dataclasses.replace(
        run.observation, retires=changed(retires, Unit.LOAD, indexes=indexes)
    )
    difference = run.difference(altered)
    assert (difference.kind, difference.instruction) == (Kind.ORDER, expected)
    assert difference.sentence.startswith("should be the next that LOAD ends")


def test_a_run_without_an_interrupt(run: Run) -> None:
    difference = run.difference(run.observation, timed_out=True)
    assert difference.kind is Kind.STATUS
    assert difference.instruction == len(run.launch.program.instructions) - 1
    assert "the interrupt must come within" in difference.sentence


def test_an_instruction_that_never_starts(run: Run) -> None:
    """Its tokens are there, and there is no interrupt."""
    instructions = run.launch.program.instructions
    numbers = Timeline(run.launch, run.result, run.observation).numbers
    unit = next(unit for unit, mine in numbers.items() if instructions[mine[-1]].pop)
    observation = run.observation
    for name in ("issues", "retires"):
        events = getattr(observation, name)
        last = events[unit]
        cut = changed(events, unit, cycles=last.cycles[:-1], indexes=last.indexes[:-1])
        observation = dataclasses.replace(observation, **{name: cut})
    difference = run.difference(observation, timed_out=True)
    assert (difference.kind, difference.instruction) == (Kind.STUCK, numbers[unit][-1])
    assert "the interrupt must come within" in difference.sentence


def test_a_write_once_too_often(run: Run) -> None:
    records = run.observation.writes["out_alu"]
    late = np.array(records[-1:])
    late["cycle"] = run.result.cycles
    writes = {**run.observation.writes, "out_alu": np.concatenate([records, late])}
    difference = run.difference(dataclasses.replace(run.observation, writes=writes))
    assert (difference.kind, difference.unit) == (Kind.EXTRA, Unit.ALU)
    assert difference.cycle == run.result.cycles


def test_a_word_once_too_often(run: Run) -> None:
    beats = np.concatenate([run.observation.beats, run.observation.beats[:1]])
    difference = run.difference(dataclasses.replace(run.observation, beats=beats))
    assert (difference.kind, difference.unit) == (Kind.EXTRA, Unit.STORE)


def test_observations_are_read_from_where_they_were_written(run: Run, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Observation.load(run.launch.program.variant, tmp_path)
