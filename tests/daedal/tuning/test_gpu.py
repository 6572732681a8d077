"""`GpuTuning`: kernels of an emulated GPU with a clock of tests; no result depends on time."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daedal
from daedal.artifact.gpu_code import Extents
from daedal.common.errors import ScheduleError, TuningError, UserError
from daedal.compiler.gpu.build import build_gpu_code
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.devices.cuda.driver import Driver
from daedal.runtime.gpu_program import GpuProgram
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.tuning import gpu as gpu_module
from daedal.tuning.gpu import GpuTuning, gpu_place, gpu_to_tune
from daedal.tuning.gpu_stopwatch import GpuStopwatch
from daedal.tuning.kernels import recorded_kernels
from daedal.tuning.network import NetworkTuning, tune_network
from daedal.tuning.runner import Failure, Result
from daedal.tuning.target import Kind, Setting
from tests.daedal.tuning.test_cpu import MODEL, networks
from tests.support.command_line import Run, refuses
from tests.support.fake_cuda import FakeCuda


class ClockedEmulator(EmulatedGpu):
    """A launch takes 1 to 2 ms of its clock, by the kernel's symbol."""

    def __init__(self) -> None:
        super().__init__()
        self.nanoseconds = 0

    def launch(
        self,
        loaded: Any,
        symbol: str,
        grid: Extents,
        block: Extents,
        shared_bytes: int,
        arguments: Any,
    ) -> None:
        super().launch(loaded, symbol, grid, block, shared_bytes, arguments)
        self.nanoseconds += 10**6 + 10**3 * (int(symbol[1:], 16) % 1000)

    def seconds(self, work: Callable[[], None]) -> float:
        before = self.nanoseconds
        work()
        return (self.nanoseconds - before) * 1e-9


@pytest.fixture
def kind() -> Kind:
    (found,) = GpuTuning(MODEL, ClockedEmulator(), networks=networks).kinds()
    return found


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    with Database(tmp_path / "records.db") as opened:
        yield opened


def test_the_default_is_the_tile_of_the_rule(kind: Kind) -> None:
    target = GpuTuning(MODEL, ClockedEmulator())
    (use,) = target.uses()
    space = kind.space
    assert space.fits(space.all()).all() and space.size >= len(space.configs(space.all())) > 8
    rule = gpu_kernel_function(use.kernel)
    assert str(gpu_kernel_function(use.kernel, config=space.default)) == str(rule)
    assert np.isfinite(space.cycles(space.all())).all()
    wrong = Config.from_json({**space.default.to_json(), "rows": 7})
    with pytest.raises(ScheduleError, match="knob 'rows' must be one of"):
        gpu_kernel_function(use.kernel, config=wrong)
    with pytest.raises(TuningError, match="a configuration must build its kernel"):
        build_gpu_code(
            GpuTuning(MODEL, ClockedEmulator()).model, configs={kind.workload.key: wrong}
        )


@pytest.mark.heavy(6)
def test_tiles_compute_the_same_without_races(kind: Kind) -> None:
    """Small and large blocks and threads, and some drawn ones."""
    table = kind.space.all()
    configs = kind.space.configs(table)
    drawn = kind.space.sample(np.random.default_rng(3), 4)
    ends = [
        configs[int(pick(column))] for column in table.values() for pick in (np.argmin, np.argmax)
    ]
    model = GpuTuning(MODEL, ClockedEmulator()).model
    x = np.random.default_rng(5).normal(size=(20, 48)).astype(np.float32)
    expected = daedal.simulate(daedal.compile(MODEL, target="cpu"), {"x": x}).outputs["y"]
    for config in dict.fromkeys([*drawn, *ends]):
        code = build_gpu_code(
            model,
            architectures=["emulated"],
            configs={kind.workload.key: config},
            checked=True,
        )
        device = EmulatedGpu()
        found = GpuProgram(code, device).run({"x": x})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert device.num_races == 0, config


@pytest.fixture
def tuned(database: Database) -> NetworkTuning:
    return tune_network(GpuTuning(MODEL, ClockedEmulator(), networks=networks), database, trials=10)


@pytest.mark.heavy(6)
def test_a_model_is_tuned_and_compiled_with_the_records(
    tuned: NetworkTuning, database: Database
) -> None:
    (result,) = tuned.results
    assert result.layers == ("y",) and result.trials == 10
    place = gpu_place(ClockedEmulator())
    assert {item.fingerprint for item in database.records(target="gpu")} == {place.fingerprint}
    configs = recorded_kernels(Setting(place, database), MODEL)
    assert configs == {result.workload.key: result.config if result.is_used else result.default}
    x = {"x": np.random.default_rng(7).normal(size=(20, 48)).astype(np.float32)}
    found, default = (
        daedal.simulate(
            daedal.compile(MODEL, target="gpu:emulated", configs=item), x, device="gpu-emulated"
        ).outputs["y"]
        for item in (configs, None)
    )
    np.testing.assert_allclose(found, default, rtol=1e-4, atol=1e-5)


def test_kernels_are_timed_by_events_of_the_driver(kind: Kind) -> None:
    """A launch takes 1 ms on the fake GPU."""
    use = GpuTuning(MODEL, ClockedEmulator()).uses()[0]
    library = FakeCuda()
    device = CudaGpu(driver=Driver(library))
    code = GpuTuning(MODEL, device).build(use, {})
    assert b".target sm_90a" in code.image
    stopwatch = GpuStopwatch(device)
    times = stopwatch.times([code, code])
    assert isinstance(times, list)
    np.testing.assert_allclose(times, 10**6, rtol=1e-3)
    assert {"cuEventRecord", "cuEventElapsedTime"} <= set(library.calls)
    found = stopwatch.result(code)
    assert not isinstance(found, Result) and found.shape == (20, 64)
    library.failures["cuLaunchKernel"] = 1
    failed = stopwatch.times([code])
    assert isinstance(failed, Result) and failed.failure is Failure.CRASH
    library.failures.clear()
    del stopwatch, device
    gc.collect()
    assert not library.held


def test_a_gpu_with_a_clock_is_needed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, records = tmp_path / "m.onnx", tmp_path / "r.db"
    model.write_bytes(MODEL)
    for found in (None, EmulatedGpu()):
        monkeypatch.setattr(gpu_module, "find_gpu", lambda found=found: found)
        with pytest.raises(UserError, match="schedules of GPUs are measured on a GPU"):
            gpu_to_tune()
    refuses(run("tune", model, "--target", "gpu", "-r", records), "measured on a GPU")
    assert not records.exists()
    monkeypatch.setattr(gpu_module, "find_gpu", ClockedEmulator)
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    status, _, err = run("tune", model, "--target", "gpu", "-r", records, "--trials", 1)
    assert status == 0, err
    target = tmp_path / "m.daedal"
    status, _, err = run(
        "compile", model, "--target", "gpu:emulated", "--records", records, "-o", target
    )
    assert status == 0 and target.is_file(), err
