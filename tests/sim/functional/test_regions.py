"""Transfers past the end of their region: the simulators and the verifier refuse the same ones."""

from collections.abc import Callable
from functools import partial

import pytest

from daedal.common.errors import DaedalError, DeviceError, ProgramError, VerificationError
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.table import BASES, Opcode
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import TimingDevice
from tests.support.region_cases import RegionCase, region_cases

TINY = load_variant("tiny")
WORDS, LINE = 64, 4


def program(case: RegionCase, opcode: Opcode, base: int) -> Program:
    """A good transfer and the one of `case`; the last word of the region is begun, not full."""
    size = WORDS * TINY.bus_bytes - 7
    sizes = tuple(size if number == base else 4096 for number in range(len(BASES)))
    fields = ({"blocks": 1, "rows": 1}, case.fields)
    transfers = [Instruction.of(opcode, base=base, cols=LINE, **values) for values in fields]
    return Program(TINY, (*transfers, Instruction.of(Opcode.FINISH)), region_bytes=sizes)


def refusal(run: Callable[[Program], object], given: Program) -> str:
    try:
        run(given)
    except DaedalError as error:
        assert isinstance(error, DeviceError | VerificationError | ProgramError)
        return str(error)
    return ""


def launcher(device: Device) -> Callable[[Program], object]:
    return lambda given: device.launch(given, LoadedProgram.place(given, device).bases)


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
@pytest.mark.parametrize("case", region_cases(TINY, WORDS, LINE), ids=str)
def test_a_transfer_past_its_region_is_refused(case: RegionCase, opcode: Opcode) -> None:
    devices = [
        FunctionalDevice(TINY),
        FunctionalDevice(TINY, kernels=False),
        TimingDevice(TINY),
    ]
    for base in range(len(BASES)):
        given = program(case, opcode, base)
        told = {refusal(launcher(device), given) for device in devices}
        assert len(told) == 1, "all say the same"
        (text,) = told
        if base == 0 and opcode is Opcode.STORE:
            assert text.startswith("a program must not write its constants, as instruction 0")
            continue
        assert (text == "") == (case.inside is None)
        if text:
            assert text.startswith(f"instruction 1 ({opcode.name}): {opcode.name} must stay within")
            assert f"the {WORDS * TINY.bus_bytes} bytes of {BASES[base]}, not reach byte " in text
        assert (refusal(partial(verify, zeroed=True), given) == "") == (text == "")


def test_a_transfer_without_rows_reaches_nothing() -> None:
    for fields in ({"blocks": 0}, {"rows": 0}, {"cols": 0}):
        values = {"blocks": 1, "rows": 1, "cols": 1, "offset_beats": 1 << 20, **fields}
        for opcode in (Opcode.LOAD, Opcode.STORE):
            nothing = Instruction.of(opcode, base=2, **values)
            given = Program(TINY, (nothing, Instruction.of(Opcode.FINISH)))
            for device in (FunctionalDevice(TINY), TimingDevice(TINY)):
                launcher(device)(given)
