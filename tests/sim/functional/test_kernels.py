"""The functional simulator's machine code against `isa.semantics`: the same bits, always."""

from collections.abc import Mapping

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.isa.assembly import assemble
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.random_programs import RandomProgram, random_program
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.sim.functional import engine
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.functional.engine import Engine, run_kernel
from tests.support.machine_states import arrays, fill

TINY = load_variant("tiny")


VARIANTS = {
    **{name: load_variant(name) for name in ("tiny", "batch4", "int4", "int16")},
    "more_outputs": TINY.replace("more_outputs", block_out=32, depthwise_taps=0),
    "more_inputs": TINY.replace("more_inputs", block_in=32, depthwise_taps=0),
    "three_taps": TINY.replace("three_taps", depthwise_taps=3),
    "mixed": TINY.replace("mixed", batch=2, block_in=16, block_out=16, weight_bits=4),
    "tables": TINY.replace("tables", tables=4, requantize_lanes=4),
    "reductions": TINY.replace("reductions", block_out=32, depthwise_taps=0, lane_reductions=True),
    "wide_results": TINY.replace("wide_results", tables=1, wide_requantize=True),
    "one_table": TINY.replace("one_table", batch=2, tables=1, data_bits=128, acc_bytes=16384),
    "operands": TINY.replace("operands", batch=2, gemm_reads_out=True, acc_bytes=16384),
    "narrow": TINY.replace("narrow", narrow_weights=True),
    "all_options": load_variant("attention").replace(
        "all_options",
        lane_reductions=True,
        wide_requantize=True,
        gemm_reads_out=True,
        narrow_weights=True,
    ),
}


def launch(case: RandomProgram, *, kernels: bool, skew: int = 0) -> FunctionalDevice:
    """Run a random program on a device whose scratchpads hold random values."""
    program = case.program
    device = FunctionalDevice(program.variant, kernels=kernels)
    fill(device.state, np.random.default_rng(case.seed))
    bases = [device.alloc(size + skew) + skew for size in program.region_bytes]
    device.write(bases[0], program.constants)
    for base, content in case.contents.items():
        device.write(bases[base], content)
    device.launch(program, bases)
    return device


def assert_equal(a: FunctionalDevice, b: FunctionalDevice) -> None:
    """Equal scratchpads and memories."""
    others = arrays(b.state)
    for name, values in arrays(a.state).items():
        np.testing.assert_array_equal(values, others[name], err_msg=name)
    size = 1 << 16
    assert a.read(0, size) == b.read(0, size)


@pytest.mark.parametrize("name", VARIANTS)
def test_random_programs_leave_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels run all of it: what they leave to the definition is right, and far slower."""

    def left_over(_: object, instruction: Instruction, *__: object) -> None:
        raise AssertionError(f"the kernels leave {instruction} to the definition")

    monkeypatch.setattr(engine, "execute", left_over)
    for seed in range(12):
        print(f"seed {seed}")
        case = random_program(VARIANTS[name], seed, length=40)
        assert_equal(launch(case, kernels=True), launch(case, kernels=False))


@pytest.mark.parametrize("fewer", ["acc", "out"])
@pytest.mark.parametrize("destination", ["ACC", "OUT"])
def test_an_operation_on_two_rows_needs_both(fewer: str, destination: str) -> None:
    """ADD reads ACC[dst] and writes there or to OUT[dst]."""
    name = f"{fewer}_bytes"
    variant = TINY.replace("uneven", **{name: getattr(TINY.memory, name) // 2})
    depths = [scratchpads(variant)[memory].depth_rows for memory in (Memory.ACC, Memory.OUT)]
    depth = depths[0] if destination == "ACC" else min(depths)
    line = f"ALU operation=ADD destination={destination} uop_end=1 {LOOPS} dst_base="
    for row, fits in ((depth - 1, True), (depth, False)):
        program = Program(variant, tuple(assemble(f"{line}{row}\nFINISH")))
        for kernels in (True, False):
            device = FunctionalDevice(variant, kernels=kernels)
            if fits:
                device.launch(program, [0, 0, 0, 0])
                continue
            with pytest.raises(DeviceError, match=rf"ALU\.dst must stay below {depth} rows"):
                device.launch(program, [0, 0, 0, 0])


@pytest.mark.parametrize(
    "line",
    [
        "GEMM uop_end=1 extent0=1 extent1=1 extent2=1",
        "ALU operation=ADD destination=ACC uop_end=1 extent0=1 extent1=1 extent2=1",
    ],
)
def test_micro_ops_behind_the_last_do_not_count(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may name rows that are not there."""
    monkeypatch.setattr(engine, "execute", None)
    device = FunctionalDevice(TINY)
    for unit in (Unit.GEMM, Unit.ALU):
        device.state.uops[unit][1:] = (1 << 63) - 1
    device.launch(Program(TINY, tuple(assemble(f"{line}\nFINISH"))), [0, 0, 0, 0])


def test_a_base_is_any_multiple_of_the_bus_word() -> None:
    case = random_program(TINY, 5, length=40)
    skew = TINY.bus_bytes
    assert_equal(launch(case, kernels=True, skew=skew), launch(case, kernels=False, skew=skew))


def test_the_kernels_run_as_plain_python_and_checked() -> None:
    """The whole run, all kernels: the source means the same, and no index leaves its array."""
    case = random_program(TINY, 11, length=30)
    expected = launch(case, kernels=False)
    for form in ("plain", "checked"):
        device = FunctionalDevice(TINY)
        fill(device.state, np.random.default_rng(case.seed))
        bases = [device.alloc(size) for size in case.program.region_bytes]
        device.write(bases[0], case.program.constants)
        for base, content in case.contents.items():
            device.write(bases[base], content)
        engine = Engine(device.state)
        engine._run = getattr(run_kernel(TINY), form)  # type: ignore[assignment]
        engine.launch(case.program, device._memory, bases)
        assert_equal(device, expected)


def run_lines(
    text: str, *, kernels: bool, contents: Mapping[str, int] | None = None
) -> tuple[FunctionalDevice, str]:
    """Assemble and launch; the device, and the error's text or ''."""
    device = FunctionalDevice(TINY, kernels=kernels)
    for name, value in (contents or {}).items():
        getattr(device.state, name)[...] = value
    # Micro-op 0 is all zeros, micro-op 1 marks its product as the first.
    first = 1 << 21
    device.state.uops[Unit.GEMM][1] = first
    program = Program(TINY, tuple(assemble(text)), bytes(64), (64, 0, 64, 0))
    bases = [device.alloc(size) for size in program.region_bytes]
    try:
        device.launch(program, bases)
    except DeviceError as error:
        return device, str(error)
    return device, ""


LOOPS = "extent0=1 extent1=1 extent2=1"


@pytest.mark.parametrize(
    "line",
    [
        "GEMM uop_end=1 acc_base=511 acc_factor0=1 extent0=2 extent1=1 extent2=1",
        "GEMM uop_end=1 inp_base=511 inp_factor1=1 extent0=1 extent1=2 extent2=1",
        "GEMM uop_end=1 wgt_base=1023 wgt_factor2=4095 extent0=1 extent1=1 extent2=9",
        "GEMM mode=DEPTHWISE uop_end=1 wgt_base=8191 wgt_factor0=1 extent0=2 extent1=1 extent2=1",
        "GEMM mode=DEPTHWISE3 uop_end=1 inp_base=510 extent0=1 extent1=1 extent2=1",
        "GEMM mode=DEPTHWISE3 uop_end=1 wgt_base=4 wgt_factor1=1 extent0=1 extent1=3 extent2=1",
        f"GEMM uop_begin=5 uop_end=1024 {LOOPS} acc_base=511",
        "ALU operation=ADD destination=ACC uop_end=1 dst_base=511 dst_factor2=1 extent0=1 "
        "extent1=1 extent2=2",
        "ALU operation=MOV destination=OUT uop_end=1 src_base=511 src_factor2=1 extent0=1 "
        "extent1=1 extent2=2",
        "ALU operation=REQUANTIZE uop_end=1 par_base=15 par_factor0=15 extent0=3 extent1=1 "
        "extent2=1",
        "LOAD memory=INP row=511 blocks=1 rows=2 cols=1",
        "LOAD memory=WGT blocks=1 rows=1 cols=1 pad_left=1",
        "LOAD memory=ACC base=outputs offset_beats=99999 blocks=1 rows=1 cols=1",
        "LOAD memory=INP blocks=2 rows=1 cols=1 block_stride_beats=16000000",
        "STORE memory=OUT base=outputs row=511 blocks=1 rows=1 cols=2",
        "STORE memory=ACC base=outputs blocks=1 rows=2 cols=1 row_stride_beats=9999999",
    ],
)
def test_what_is_illegal_is_refused_with_the_same_words(line: str) -> None:
    results = [run_lines(f"{line}\nFINISH", kernels=kernels) for kernels in (True, False)]
    assert results[0][1] == results[1][1]
    assert results[0][1].startswith("instruction 0 (")
    assert_equal(results[0][0], results[1][0])


@pytest.mark.parametrize(
    "line",
    [
        "STORE pop=LOAD\nFINISH",
        "LOAD push=ALU\nGEMM push=STORE\nSTORE pop=GEMM push=LOAD\nFINISH",
        "LOAD push=GEMM,ALU\nGEMM pop=LOAD push=ALU\nALU pop=LOAD,GEMM\nALU pop=STORE\nFINISH",
        "LOAD",
        "",
    ],
)
def test_tokens_are_checked_with_the_same_words(line: str) -> None:
    errors = [run_lines(line, kernels=kernels)[1] for kernels in (True, False)]
    assert errors[0] == errors[1] != ""


@pytest.mark.parametrize("mode", ["DENSE", "DEPTHWISE", "DEPTHWISE3"])
@pytest.mark.parametrize("overwrite", [0, 1])
@pytest.mark.parametrize("extremes", [(-128, -128), (-128, 127), (127, 127)])
def test_accumulators_wrap_in_every_order(
    mode: str, overwrite: int, extremes: tuple[int, int]
) -> None:
    """Every product meets the same row, which is full at first."""
    line = (
        f"GEMM mode={mode} overwrite={overwrite} uop_end=2 extent0=3 extent1=2 extent2=2 "
        "inp_factor0=1 wgt_factor1=1 acc_base=7"
    )
    contents = {"inp": extremes[0], "wgt": extremes[1], "acc": 2**31 - 1}
    results = [
        run_lines(f"{line}\nFINISH", kernels=kernels, contents=contents)[0]
        for kernels in (True, False)
    ]
    assert_equal(*results)
    assert (results[0].state.acc[7] != 2**31 - 1).all()


def test_what_is_written_to_the_state_between_launches_counts() -> None:
    device, _ = run_lines("FINISH", kernels=True)
    device.state.inp[3], device.state.wgt[5] = 2, 3
    program = Program(
        TINY, tuple(assemble(f"GEMM uop_end=1 inp_base=3 wgt_base=5 {LOOPS}\nFINISH"))
    )
    device.launch(program, [0, 0, 0, 0])
    assert (device.state.acc[0] == 6 * TINY.array.block_in).all()
