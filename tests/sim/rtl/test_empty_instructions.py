"""Instructions that do nothing finish on every device, whatever rows and micro-ops they name."""

import pytest

from bench.correctness.rtl_launches import rtl_device
from daedal.isa.assembly import assemble
from daedal.isa.memory_model import memory_model
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import TimingDevice

TINY = load_variant("tiny")
SIZES = (256, 256, 256, 256)
EMPTY = [
    "LOAD memory=PAR row=500 rows=1 cols=1",
    "LOAD memory=PAR row=500 blocks=1 rows=1",
    "LOAD memory=UOP_ALU row=511 blocks=3 cols=9",
    "LOAD row=511 rows=511 cols=511 pad_top=63",
    "STORE base=outputs row=255 rows=500 cols=500",
    "STORE base=outputs row=255 blocks=500 cols=500 offset_beats=4000000000",
    "GEMM uop_end=500 extent0=1 extent1=1",
    "GEMM uop_begin=3 uop_end=3 extent0=511 extent1=511 extent2=511 acc_base=255 acc_factor0=255",
    "ALU operation=REQUANTIZE uop_begin=255 uop_end=500 extent0=1 extent2=1 par_base=15",
    "ALU uop_begin=9 uop_end=1 extent0=511 extent1=511 extent2=511 destination=ACC",
]
PROGRAM = Program(TINY, tuple(assemble("\n".join([*EMPTY, "FINISH"]))), region_bytes=SIZES)


def memory_after(device: Device) -> bytes:
    loaded = LoadedProgram.place(PROGRAM, device)
    for base in range(1, 4):
        loaded.write_region(base, bytes(range(256)))
    device.launch(PROGRAM, loaded.bases)
    return b"".join(loaded.read_region(base) for base in range(1, 4))


@pytest.mark.parametrize("kernels", [True, False])
def test_the_definition_finishes(kernels: bool) -> None:
    assert memory_after(FunctionalDevice(TINY, kernels=kernels)) == 3 * bytes(range(256))


def test_the_rules_hold() -> None:
    verify(PROGRAM)


@pytest.mark.rtl
def test_the_machine_finishes_in_as_many_cycles_as_the_model() -> None:
    timing = memory_model("ideal")
    rtl = rtl_device(TINY, timing=timing)
    assert memory_after(rtl) == 3 * bytes(range(256))
    model = TimingDevice(TINY, timing=timing)
    cycles = []
    for device in (rtl, model):
        loaded = LoadedProgram.place(PROGRAM, device)
        cycles.append(device.launch(PROGRAM, loaded.bases).cycles)
    assert cycles[0] == cycles[1]
