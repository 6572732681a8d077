"""A simulator ends when whoever started it was killed and could not end it."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from daedal.sim.rtl.build import Built
from tests.support.processes import alive, wait_until

pytestmark = pytest.mark.rtl

STARTER = """
import json, sys
from pathlib import Path
from daedal.sim.rtl.build import Built
from daedal.sim.rtl.job import Faults, Job
from daedal.sim.rtl.run import run_jobs

built = json.loads(sys.argv[1])
built["program"] = Path(built["program"])
silent = Job(
    start=(0, 1),
    writes=((0x14, 1), (0x18, 1)),  # copy a burst of a beat
    faults=Faults(stop_channels=("ar",)),
    cycle_limit=10**15,
)
tell = lambda progress: print(progress.cycles, flush=True)
run_jobs(Built(**built), [silent], work_dir=Path(sys.argv[2]), progress=tell, pause_cycles=1000)
"""


@pytest.fixture
def simulator(cocotb_simulator: str) -> str:
    """The native one is no process."""
    return cocotb_simulator


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")
def test_a_simulator_does_not_outlive_its_parent(standin: Built, tmp_path: Path) -> None:
    description = json.dumps(asdict(standin) | {"program": str(standin.program)})
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, description, str(tmp_path)], stdout=subprocess.PIPE
    )
    try:
        assert starter.stdout is not None
        assert int(starter.stdout.readline()) >= 1000, "the program runs"
        children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
        (simulator,) = (int(pid) for pid in children)
        assert alive(simulator)
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()
    wait_until(lambda: not alive(simulator))
