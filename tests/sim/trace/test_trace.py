"""The trace of the real machine: nothing differs; with a planted fault, the right instruction does.

The oracles say from the program alone where each fault must first show.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.correctness.random_runs import every_variant
from bench.correctness.rtl_launches import CACHE, expected_memories, placed
from daedal.common.errors import DeviceError, ToolError
from daedal.isa import numerics, semantics
from daedal.isa.instruction import Instruction, units_of
from daedal.isa.memory_model import memory_model
from daedal.isa.microcode import expand
from daedal.isa.program import Program
from daedal.isa.random_programs import RandomProgram, random_program
from daedal.isa.semantics import State, execute
from daedal.isa.table import Opcode, Unit
from daedal.isa.tensor import pack_tensor
from daedal.isa.transfer import transfer
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl.launch import Launch
from daedal.sim.rtl.toolchain import find_icarus, require_tools
from daedal.sim.trace.difference import Kind
from daedal.sim.trace.trace import Trace, trace_launch
from tests.support.mutants import MUTANTS, mutant_verilog

# One worker builds the machines that these tests share.
pytestmark = [pytest.mark.rtl, pytest.mark.xdist_group("trace-rtl")]

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"
WATCHDOG_CYCLES = 1500


@pytest.fixture(scope="module")
def simulator() -> str:
    """Icarus builds at once and Verilator takes a minute; either serves a short program."""
    try:
        find_icarus()
    except ToolError:
        try:
            require_tools("verilator")
        except ToolError as error:
            pytest.skip(str(error))
        return "verilator"
    return "icarus"


def launched(seed: int, preset: str = "jitter", variant: Variant = TINY) -> Launch:
    """A random program and its memory."""
    case = random_program(variant, seed)
    return placed(case, memory_model(preset, seed), watchdog_cycles=WATCHDOG_CYCLES)


@pytest.fixture(scope="module")
def layer() -> Launch:
    """The first convolution of the digits network on a random image."""
    program = daedal.compile(DIGITS, "tiny", to_tensors=["conv0_q"]).program
    (spec,) = program.inputs
    image = np.random.default_rng(1).integers(-128, 128, spec.shape)
    case = RandomProgram(program, {spec.base: pack_tensor(spec, image)}, seed=1)
    return placed(case, memory_model("ddr"), watchdog_cycles=WATCHDOG_CYCLES)


def traced(launch: Launch, folder: Path, simulator: str, verilog: str | None = None) -> Trace:
    found = trace_launch(
        launch,
        cache_dir=CACHE,
        work_dir=folder,
        simulator=simulator,
        assertions=True,
        verilog=verilog,
    )
    print(found.difference)
    return found


# ---- where a fault must show ---------------------------------------------------------------


def first(program: Program, wanted: Callable[[Instruction], bool]) -> int:
    """Number of the first instruction that has a property."""
    return next(n for n, item in enumerate(program.instructions) if wanted(item))


def takes_from(unit: Unit, source: Unit) -> Callable[[Instruction], bool]:
    return lambda item: item.unit is unit and source in units_of(item.pop)


def first_wrong_rounding(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> int:
    """The first instruction whose result changes if the numpy definition rounds down as well."""

    def rounds_down(*operands: object) -> np.ndarray:
        with monkeypatch.context() as patch:  # shifts of the ALU round by the same function
            patch.setattr(numerics, "round_half_even_shift", lambda x, amount: x >> amount)
            return numerics.requantize(*operands)

    def states(floor: bool) -> list[bytes]:
        with monkeypatch.context() as patch:
            if floor:
                patch.setattr(semantics, "requantize", rounds_down)
            state = State(TINY)
            memory = np.frombuffer(launch.memory, dtype=np.uint8).copy()
            results = []
            for instruction in launch.program.instructions:
                execute(state, instruction, memory, launch.bases, launch.program.region_words)
                results.append(state.acc.tobytes() + state.out.tobytes())
        return results

    pairs = zip(states(False), states(True), strict=True)
    return next(n for n, (right, wrong) in enumerate(pairs) if right != wrong)


def first_overwrite(launch: Launch) -> int:
    """The first GEMM that overwrites an accumulator row which holds something."""
    state = State(TINY)
    memory = np.frombuffer(launch.memory, dtype=np.uint8).copy()
    for number, instruction in enumerate(launch.program.instructions):
        if instruction.opcode is Opcode.GEMM:
            steps = expand(TINY, instruction, state.uops[Unit.GEMM])
            if state.acc[steps.rows["acc"][steps.restart]].any():
                return number
        execute(state, instruction, memory, launch.bases, launch.program.region_words)
    raise AssertionError("no row is overwritten")


# ---- tests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "seed", "preset"), [("tiny", 0, "ddr"), ("tiny", 1, "jitter"), ("tables", 2, "ddr")]
)
def test_the_machine_does_what_the_programs_say(
    name: str, seed: int, preset: str, tmp_path: Path, simulator: str
) -> None:
    variant = every_variant()[name]
    launch = launched(seed, preset, variant)
    found = traced(launch, tmp_path, simulator)
    assert found.difference is None
    assert found.num_instructions == len(launch.program.instructions)
    assert [found.memory] == expected_memories([launch])
    stored = sum(
        transfer(variant, item).rows.size * transfer(variant, item).row_bytes
        for item in launch.program.instructions
        if item.opcode is Opcode.STORE
    )
    assert found.num_beats == stored // variant.bus_bytes > 0
    assert found.num_writes > 0


def test_a_wrong_rounding_is_found(
    tmp_path: Path, simulator: str, layer: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    verilog = mutant_verilog(TINY, MUTANTS["rounds down"])
    difference = traced(layer, tmp_path, simulator, verilog).difference
    assert difference is not None
    assert difference.kind is Kind.VALUE
    assert difference.instruction == first_wrong_rounding(layer, monkeypatch)
    pairs = zip(difference.expected, difference.found, strict=True)
    assert {want - got for want, got in pairs} <= {0, 1}


@pytest.mark.slow
def test_a_lost_token_is_found(tmp_path: Path, simulator: str) -> None:
    """The machine reports whoever waits first; the trace knows whose token was lost."""
    launch = launched(0)
    verilog = mutant_verilog(TINY, MUTANTS["loses a token"])
    difference = traced(launch, tmp_path, simulator, verilog).difference
    assert difference is not None
    assert difference.kind is Kind.STUCK
    assert difference.instruction == first(launch.program, takes_from(Unit.ALU, Unit.GEMM))
    assert "DEADLOCK" in difference.sentence


@pytest.mark.slow
def test_a_start_without_its_token_is_found(tmp_path: Path, simulator: str) -> None:
    launch = launched(3)
    verilog = mutant_verilog(TINY, MUTANTS["does not wait"])
    difference = traced(launch, tmp_path, simulator, verilog).difference
    assert difference is not None
    assert difference.instruction == first(launch.program, takes_from(Unit.GEMM, Unit.LOAD))
    loads = [n for n, item in enumerate(launch.program.instructions) if item.unit is Unit.LOAD]
    assert difference.races
    assert {race.writer for race in difference.races} <= set(loads)
    for race in difference.races:
        assert race.written_cycle is None or race.started_cycle <= race.written_cycle


@pytest.mark.slow
def test_a_wrong_pad_is_found(tmp_path: Path, simulator: str) -> None:
    verilog = mutant_verilog(TINY, MUTANTS["pads with zero"])
    for seed in (0, 1, 3):
        launch = launched(seed)
        difference = traced(launch, tmp_path / str(seed), simulator, verilog).difference
        assert difference is not None
        wanted = first(
            launch.program,
            lambda item: (
                item.opcode is Opcode.LOAD
                and len(transfer(TINY, item).pad_rows) > 0
                and item.pad_value != 0
            ),
        )
        assert (difference.kind, difference.instruction) == (Kind.VALUE, wanted)
        assert difference.row in transfer(TINY, launch.program.instructions[wanted]).pad_rows
        assert set(difference.found) == {0}


@pytest.mark.slow
def test_a_sum_that_is_not_started_anew_is_found(tmp_path: Path, simulator: str) -> None:
    verilog = mutant_verilog(TINY, MUTANTS["never overwrites"])
    for seed in (16, 31):  # in which a row is used again
        launch = launched(seed)
        difference = traced(launch, tmp_path / str(seed), simulator, verilog).difference
        assert difference is not None
        assert (difference.kind, difference.unit) == (Kind.VALUE, Unit.GEMM)
        assert difference.instruction == first_overwrite(launch)


@pytest.mark.slow
def test_a_byte_that_is_not_written_is_found(tmp_path: Path, simulator: str) -> None:
    launch = launched(0)
    verilog = mutant_verilog(TINY, MUTANTS["drops a byte"])
    difference = traced(launch, tmp_path, simulator, verilog).difference
    assert difference is not None
    assert difference.kind is Kind.PARTIAL
    assert difference.elements == (0,)
    store = first(
        launch.program,
        lambda item: item.opcode is Opcode.STORE and len(transfer(TINY, item).rows) > 0,
    )
    assert difference.instruction == store


def test_a_program_that_cannot_run_is_refused(tmp_path: Path, simulator: str) -> None:
    launch = launched(0)
    without = tuple(item.replace(push=0) for item in launch.program.instructions)
    broken = Launch(
        Program(TINY, without, launch.program.constants, launch.program.region_bytes),
        launch.bases,
        launch.memory,
    )
    with pytest.raises(DeviceError, match="every pop must find a token in program order"):
        traced(broken, tmp_path, simulator)
