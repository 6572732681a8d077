"""`ProcessRunner`: a candidate that goes wrong fails alone, and processes end."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from daedal.common.errors import ToolError, TuningError
from daedal.compiler.ops.space import Config
from daedal.isa.variant import load_variant
from daedal.tuning import child_process
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.layer_task import RTL, LayerTask
from daedal.tuning.process_runner import ProcessRunner
from daedal.tuning.runner import Failure, Result
from daedal.tuning.sandbox import Sandbox
from tests.support.hostile_folder import HostileFolder
from tests.support.processes import alive, wait_until
from tests.support.tuning_layers import HARMFUL, harmful, small_layer, space

TINY = load_variant("tiny")


@pytest.fixture(scope="module")
def task() -> LayerTask:
    return LayerTask.of(*small_layer(TINY), TINY)


@pytest.fixture(scope="module")
def configs() -> list[Config]:
    found = space(*small_layer(TINY), TINY)
    return [found.default, *found.sample(np.random.default_rng(5), 2)]


@pytest.fixture
def with_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "PROGRAM", ("-c", HARMFUL))


def test_cycles_are_those_of_this_process(
    task: LayerTask, configs: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = HostileFolder(tmp_path / "download")
    hostile.enter(monkeypatch)
    with Sandbox() as sandbox:
        runner = ProcessRunner(task, sandbox)
        found = runner(configs)
        pids = sandbox.pids
        assert None not in pids and pids[0] != pids[1]
        assert runner([harmful(configs[0], "unbuildable")]) == [None]
        assert sandbox.pids == pids, "what cannot be built needs no new process"
    assert found == LayerRunner(*small_layer(TINY), TINY)(configs)
    assert runner.workload == task.workload
    assert not any(alive(pid) for pid in pids if pid is not None)
    assert hostile.imported == []


@pytest.mark.usefixtures("with_harm")
def test_whatever_a_candidate_does_the_others_are_measured(
    task: LayerTask, configs: list[Config]
) -> None:
    first, second, _ = configs
    kinds = ("segfault", "hang", "memory", "exit", "bug", "unbuildable")
    with Sandbox(timeout_seconds=15.0) as sandbox:
        runner = ProcessRunner(task, sandbox)
        batch = [first, *(harmful(second, kind) for kind in kinds), second]
        found = runner.results(batch)
    assert found[0].cycles is not None and found[-1].cycles is not None
    assert {
        kind: (item.failure, item.reason) for kind, item in zip(kinds, found[1:-1], strict=True)
    } == {
        "segfault": (Failure.CRASH, "its process was ended by SIGSEGV"),
        "hang": (Failure.TIMEOUT, "it takes more than 15 s"),
        "memory": (Failure.CRASH, "it needs more memory than a candidate may have"),
        "exit": (Failure.CRASH, "its process ended with status 7"),
        "bug": (Failure.CRASH, "AssertionError: an invariant"),
        "unbuildable": (Failure.BUILD, found[6].reason),
    }
    assert "tap_columns" in found[6].reason
    assert runner.workload == task.workload


@pytest.mark.usefixtures("with_harm")
def test_a_process_that_lies_is_found_out(
    task: LayerTask, configs: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAEDAL_TEST_LIES", "1")
    with Sandbox() as sandbox:
        runner = ProcessRunner(task, sandbox)
        (found,) = runner.results(configs[:1])
        assert (found.cycles, found.failure, found.digest) == (None, Failure.WRONG, "0" * 64)
        with pytest.raises(TuningError, match="has other bytes than its reference"):
            runner(configs[:1])


def test_a_process_killed_from_outside_costs_no_candidate(
    task: LayerTask, configs: list[Config]
) -> None:
    with Sandbox() as sandbox:
        runner = ProcessRunner(task, sandbox)
        expected = runner(configs)
        for pid in sandbox.pids:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            assert runner(configs) == expected


def test_a_device_that_is_not_there_is_named(
    task: LayerTask, configs: list[Config], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(child_process, "PROGRAM", ("-c", WITHOUT_TOOLS))
    monkeypatch.chdir(tmp_path)
    with Sandbox() as sandbox:
        runner = ProcessRunner(dataclasses.replace(task, device=RTL), sandbox)
        with pytest.raises(ToolError, match="no compiler; install one"):
            runner(configs[:1])


WITHOUT_TOOLS = """
from daedal.common.errors import ToolError
from daedal.sim.rtl import device
from daedal.tuning import child

def refuse(*arguments):
    raise ToolError("no compiler; install one")

device.require_tools = refuse
child.main()
"""


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(TuningError, match="a candidate must have some memory, not 0 bytes"):
        Sandbox(memory_bytes=0)
    with pytest.raises(TuningError, match="must be more than 0 s, not -1"):
        Sandbox(timeout_seconds=-1)


ORPHANING = """
import sys, time
from daedal.compiler.ops.space import Config
from daedal.tuning.layer_task import RTL, LayerTask
from daedal.tuning.sandbox import Sandbox

task = LayerTask.from_bytes(open(sys.argv[1], "rb").read())
sandbox = Sandbox()
sandbox.measure(task.key, task.to_bytes(), Config.from_json(eval(sys.argv[2])))
print(*sandbox.pids, flush=True)
time.sleep(1e6)
"""


def test_children_of_a_killed_parent_end(
    task: LayerTask, configs: list[Config], tmp_path: Path
) -> None:
    path = tmp_path / "task"
    path.write_bytes(task.to_bytes())
    command = [sys.executable, "-c", ORPHANING, str(path), repr(configs[0].to_json())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(map(alive, pids))
        parent.kill()
    wait_until(lambda: not any(map(alive, pids)))


def test_a_result_has_cycles_or_a_reason() -> None:
    with pytest.raises(AssertionError):
        Result(None)
    with pytest.raises(AssertionError):
        Result(3, failure=Failure.CRASH)
