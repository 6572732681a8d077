"""A preload of Dask for workers of tests: their RTL is built once, and shared with other tests."""

from pathlib import Path

from daedal.tuning import child_process, pool_worker

__all__ = ["LOG", "dask_setup"]

LOG = "DAEDAL_TEST_OPENED"
"""Environment variable with the file that has the name of each device that is opened."""

_CHILD = """
import os, sys
sys.path.insert(0, {root!r})
from daedal.tuning import child, layer_runner
from bench.correctness.rtl_launches import rtl_device

open_device = layer_runner.open_device

def open_kept(name, variant, **options):
    with open(os.environ[{log!r}], "a") as file:
        print(name, file=file)
    if name == "rtl":
        return rtl_device(variant, **options)
    return open_device(name, variant, **options)

layer_runner.open_device = open_kept
child.main()
"""


def dask_setup(worker: object) -> None:
    """Prepare this worker."""
    pool_worker.dask_setup(worker)
    root = Path(__file__).resolve().parents[2]
    child_process.PROGRAM = ("-c", _CHILD.format(root=str(root), log=LOG))
