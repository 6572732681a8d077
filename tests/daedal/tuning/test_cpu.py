"""`CpuTuning`: kernels of a processor with a clock that tests set; no result depends on time.

`Scripted` runs kernels in this process, and says that they take what their code's name says.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.native import cpu as native_cpu
from daedal.tuning import cpu
from daedal.tuning.cpu import CpuTuning, processor_place
from daedal.tuning.kernel_clock import LoadedKernel, time_kernels
from daedal.tuning.kernel_code import KernelCode
from daedal.tuning.kernel_runner import KernelRunner, differs
from daedal.tuning.kernels import recorded_kernels
from daedal.tuning.network import NetworkTuning, tune_network
from daedal.tuning.runner import Failure, Result
from daedal.tuning.selection import check_recorded
from daedal.tuning.stopwatch import ChildStopwatch
from daedal.tuning.target import Kind, Setting
from tests.support.command_line import Run, refuses

Array = npt.NDArray[Any]

LOADS = (1, 3, 1, 2, 1)
"""How many times as long everything takes in each round."""
DEFAULT_NANOSECONDS = 1000


class Scripted:
    """The default takes 1,000 ns, and another kernel between 500 and 1,500 by its symbol."""

    def __init__(self) -> None:
        self.broken: Callable[[KernelCode], Array | Result | None] = lambda _: None
        self.default = ""
        self.timed: list[list[str]] = []
        self.load = 1

    def result(self, code: KernelCode) -> Array | Result:
        self.default = self.default or code.symbol
        broken = self.broken(code)
        return LoadedKernel(code).result() if broken is None else broken

    def times(self, codes: Sequence[KernelCode]) -> list[list[int]] | Result:
        self.timed.append([code.symbol for code in codes])
        base = [self.nanoseconds(code.symbol) for code in codes]
        self.load += 1
        return [[self.load * load * item for load in LOADS] for item in base]

    def nanoseconds(self, symbol: str) -> int:
        if symbol == self.default:
            return DEFAULT_NANOSECONDS
        return 500 + int(symbol[1:], 16) % 1000


def networks(codes: Sequence[object]) -> list[list[int]]:
    """A network takes 10 us, or with other kernels 9."""
    return [[10_000, 20_000] if code is codes[0] else [9_000, 18_000] for code in codes]


def made() -> bytes:
    """A matrix product of 20 x 48 and 48 x 64, and relu."""
    w = np.random.default_rng(4).normal(size=(48, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [20, 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 64])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return bytes(model.SerializeToString())


MODEL = made()


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def kind(scripted: Scripted) -> Kind:
    (found,) = CpuTuning(MODEL, scripted, networks=networks).kinds()
    return found


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    with Database(tmp_path / "records.db") as opened:
        yield opened


def others(kind: Kind, count: int) -> list[Config]:
    drawn = kind.space.sample(np.random.default_rng(1), count + 1)
    return [config for config in drawn if config != kind.space.default][:count]


def test_a_kernel_takes_its_share_of_the_default_whatever_the_load(
    kind: Kind, scripted: Scripted
) -> None:
    runner = kind.runner(None)
    configs = [kind.space.default, *others(kind, 3)]
    first, again = runner(configs), runner(configs)
    default, *rest, twin = scripted.timed[0]
    assert default == twin == scripted.default and len(scripted.timed) == 2
    assert first[0] == 2 * DEFAULT_NANOSECONDS, "the median of the first run"
    assert first[1:] == [2 * scripted.nanoseconds(symbol) for symbol in rest]
    assert again == first, "though the machine is slower"


def test_the_default_is_always_measured_and_keeps_what_it_took(
    kind: Kind, scripted: Scripted
) -> None:
    runner = kind.runner(400)
    (config,) = others(kind, 1)
    (found,) = runner([config])
    default, symbol, twin = scripted.timed[0]
    assert default == twin == scripted.default
    assert found == round(400 * scripted.nanoseconds(symbol) / DEFAULT_NANOSECONDS)
    assert runner([kind.space.default]) == [400]


def test_a_kernel_that_crashes_fails_alone(kind: Kind, scripted: Scripted) -> None:
    runner = kind.runner(None)
    good, bad = others(kind, 2)
    runner([kind.space.default])
    crashed = iter([None, None, Result.failed(Failure.CRASH, "it crashed")])
    scripted.broken = lambda _code: next(crashed)
    found = runner([good, bad])
    assert found[0] is not None and found[1] is None
    assert len(scripted.timed[-1]) == 3, "what crashed is not timed"


def test_wrong_results_end_the_run(kind: Kind, scripted: Scripted) -> None:
    runner = kind.runner(None)
    (bad,) = others(kind, 1)

    def wrong(code: KernelCode) -> Array | None:
        if code.symbol == scripted.default:
            return None
        found = LoadedKernel(code).result().copy()
        found[0, 0] += 1
        return found

    scripted.broken = wrong
    with pytest.raises(TuningError, match="1 of 1280 results differ from the default's"):
        runner([kind.space.default, bad])


def test_what_differs() -> None:
    floats = np.array([1.0, -1e4, np.nan, np.inf, 0.0], np.float32)
    assert differs(floats, floats) == ""
    near = floats * np.float32(1 + 1e-5)
    near[4] = 1e-3
    assert differs(near, floats) == "", "a sum of large terms may be near 0"
    assert differs(floats[::-1], floats).startswith("4 of 5")
    integers = np.array([1, 2, 3], np.int8)
    assert differs(integers, integers) == "" and differs(integers + 1, integers) != ""


def test_kernels_are_timed_in_turn(kind: Kind, scripted: Scripted) -> None:
    """With a clock that counts its readings: every timed call takes one."""
    codes: list[KernelCode] = []
    scripted.broken = lambda code: codes.append(code)
    kind.runner(None)([kind.space.default, *others(kind, 1)])
    readings = iter(range(0, 10**12, 250_000))
    times = time_kernels(codes, lambda: next(readings), rounds=3)
    # Four calls of 250 us fill a round of 1 ms, so each takes a quarter of a reading.
    assert times == [[62_500] * 3] * 2


@pytest.mark.heavy(4)
def test_a_child_runs_kernels_and_may_die(kind: Kind, scripted: Scripted) -> None:
    codes: list[KernelCode] = []
    scripted.broken = lambda code: codes.append(code)
    kind.runner(None)([kind.space.default])
    (code,) = codes
    with ChildStopwatch() as stopwatch:
        found = stopwatch.result(code)
        np.testing.assert_array_equal(found, LoadedKernel(code).result())
        times = stopwatch.times([code, code])
        assert isinstance(times, list) and min(map(min, times)) > 0
        dead = stopwatch.result(dataclasses.replace(code, symbol="missing"))
        assert isinstance(dead, Result) and dead.failure is Failure.CRASH
        np.testing.assert_array_equal(stopwatch.result(code), found)


@pytest.fixture
def tuned(scripted: Scripted, database: Database) -> NetworkTuning:
    """After twelve trials."""
    return tune_network(CpuTuning(MODEL, scripted, networks=networks), database, trials=12)


@pytest.mark.heavy(3)
def test_a_model_is_tuned_and_compiled_with_the_records(
    tuned: NetworkTuning, database: Database
) -> None:
    (result,) = tuned.results
    assert result.layers == ("y",) and result.trials == 12
    assert result.best_cycles < result.default_cycles and result.is_used
    assert tuned.selection is not None
    assert (tuned.selection.before.total, tuned.selection.after.total) == (15_000, 13_500)
    place = processor_place()
    records = database.records(target="cpu")
    assert len(records) == 12 and {item.fingerprint for item in records} == {place.fingerprint}
    configs = recorded_kernels(Setting(place, database), MODEL)
    assert configs == {result.workload.key: result.config}
    x = {"x": np.random.default_rng(7).normal(size=(20, 48)).astype(np.float32)}
    found, default = (
        daedal.simulate(daedal.compile(MODEL, target="cpu", configs=item), x).outputs["y"]
        for item in (configs, None)
    )
    np.testing.assert_allclose(found, default, rtol=1e-4, atol=1e-5)


@pytest.mark.heavy(3)
def test_equal_kernels_of_other_models_use_what_was_chosen(
    tuned: NetworkTuning, database: Database
) -> None:
    (result,) = tuned.results
    setting = Setting(processor_place(), database)
    assert recorded_kernels(setting, b"another model") == {result.workload.key: result.config}


@pytest.mark.heavy(3)
def test_records_of_another_processor_are_not_used(
    tuned: NetworkTuning, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = processor_place().fingerprint
    monkeypatch.setattr(cpu, "model_name", lambda: "Another CPU")
    setting = Setting(processor_place(), database)
    assert setting.place.fingerprint.endswith(" Another CPU")
    assert recorded_kernels(setting, MODEL) == {}
    with pytest.raises(TuningError, match="records of the processor that is compiled for") as error:
        check_recorded(setting, Path("x.db"))
    assert mine in str(error.value) and "choose the processor that was tuned" in str(error.value)
    scripted = Scripted()
    again = tune_network(CpuTuning(MODEL, scripted, networks=networks), database, trials=2)
    assert len(again.results[0].history) == 2


@pytest.mark.heavy(3)
def test_a_network_that_is_slower_as_a_whole_keeps_its_defaults(
    scripted: Scripted, database: Database
) -> None:
    def slower(codes: Sequence[object]) -> list[list[int]]:
        return [[10_000, 20_000] if code is codes[0] else [11_000, 22_000] for code in codes]

    tuning = tune_network(CpuTuning(MODEL, scripted, networks=slower), database, trials=12)
    assert tuning.selection is not None and tuning.selection.configs == {}
    (configs,) = recorded_kernels(Setting(processor_place(), database), MODEL).values()
    assert configs == tuning.results[0].default


def test_kernels_whose_operands_are_indices_are_not_tuned(scripted: Scripted) -> None:
    """Random operands are no indices."""
    w = np.random.default_rng(4).normal(size=(64, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["w", "i"], ["g"], axis=0),
        helper.make_node("MatMul", ["x", "g"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [20, 48]),
            helper.make_tensor_value_info("i", TensorProto.INT64, [48]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 8])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    for found in CpuTuning(bytes(model.SerializeToString()), scripted).kinds():
        runner = found.runner(None)
        assert isinstance(runner, KernelRunner)
        assert None not in runner([found.space.default])


@pytest.mark.heavy(6)
def test_the_commands(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured here decides on nothing that is compared."""
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    model, records, target = (tmp_path / name for name in ("m.onnx", "r.db", "m.daedal"))
    model.write_bytes(MODEL)
    tune = ("tune", model, "--target", "cpu", "-r", records)
    compiles = ("compile", model, "--target", "cpu", "--records", records, "-o", target)
    refuses(run(*tune, "--explain", "y"), "explanations", "are for accelerators")
    wrong = run("tune", model, "--target", "gpu:sm_80", "-r", records)
    refuses(wrong, "a variant, cpu or gpu, not 'gpu:sm_80'")
    refuses(run(*compiles), "records must be a database that `daedal tune` made")
    assert not records.exists()
    status, out, err = run(*tune, "--trials", 2, "--json")
    assert status == 0, err
    report = json.loads(out)
    assert report["unit"] == "ns" and report["trials"] == 2
    assert run(*tune, "--trials", 1)[0] == 0
    status, _, err = run(*compiles)
    assert status == 0 and target.is_file(), err
    monkeypatch.setattr(cpu, "model_name", lambda: "Another CPU")
    refuses(
        run(*compiles), "here ", "Another CPU", "has records of ", " only; choose the processor"
    )
    status, _, err = run(*tune, "--trials", 1)
    assert status == 0 and "records of other processors" in err


def test_the_name_of_a_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor : 0\nmodel name\t: Some  CPU @ 2.00GHz\nmodel name : Other\n"
    for content, expected in ((text, "Some CPU @ 2.00GHz"), ("processor : 0\n", "")):
        path = tmp_path / "cpuinfo"
        path.write_text(content)
        monkeypatch.setattr(native_cpu, "Path", lambda _name, path=path: path)
        assert native_cpu.model_name() == expected
    monkeypatch.setattr(native_cpu, "Path", lambda _name: tmp_path / "none")
    assert native_cpu.model_name() == ""
