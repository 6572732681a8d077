"""What no device may run is refused by every device, before anything of it reaches the machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from daedal.common.errors import ProgramError
from daedal.devices import device_names
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.variant import load_variant
from daedal.runtime.devices.uart import uart_device
from daedal.runtime.devices.uio import UioDevice
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.timing.device import TimingDevice
from daedal.sim.trace.device import TraceDevice
from tests.support.register_machine import RegisterMachine
from tests.support.serial_board import serial_board
from tests.support.uio_machine import UioMachine

TINY = load_variant("tiny")
SIZES = (4096, 4096, 4096, 4096)

Opened = Iterator[Device]


@contextmanager
def simulator(make: Callable[[], Device]) -> Opened:
    yield make()


@contextmanager
def uart() -> Opened:
    with serial_board(RegisterMachine(TINY, base=0, size=1 << 16)) as board:
        device = uart_device(TINY, port=board.path)
        yield device
        device.close()


@pytest.fixture(params=["functional", "interpreted", "timing", "trace", "rtl", "uart", "uio"])
def device(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Device]:
    """Each kind in turn; none is built, as nothing is run."""

    @contextmanager
    def uio() -> Opened:
        with UioMachine(TINY, tmp_path) as machine:
            where = "daedal.runtime.devices.dma_buffer.write_attribute"
            monkeypatch.setattr(where, machine.take_attribute)
            yield UioDevice(TINY, **machine.options)

    kinds = {
        "functional": partial(simulator, lambda: FunctionalDevice(TINY)),
        "interpreted": partial(simulator, lambda: FunctionalDevice(TINY, kernels=False)),
        "timing": partial(simulator, lambda: TimingDevice(TINY)),
        "trace": partial(simulator, lambda: TraceDevice(TINY, cache_dir=tmp_path)),
        "rtl": partial(simulator, lambda: RtlDevice(TINY, cache_dir=tmp_path)),
        "uart": uart,
        "uio": uio,
    }
    assert set(device_names()) <= set(kinds), "every device that a user can name"
    with kinds[request.param]() as opened:
        yield opened


def refusal(device: Device, text: str, setup: int = 0) -> str:
    """What the launch says; memory is as it was."""
    program = Program(TINY, tuple(assemble(text)), bytes(range(256)), SIZES, setup=setup)
    loaded = LoadedProgram.place(program, device)
    with pytest.raises(ProgramError) as caught:
        device.launch(program, loaded.bases)
    if not isinstance(device, TimingDevice):
        assert device.read(loaded.bases[0], 256) == bytes(range(256))
    return str(caught.value)


def test_a_run_has_a_bound_of_steps(device: Device) -> None:
    """A machine that computes makes progress, so that no watchdog ends such a run."""
    long = "ALU operation=MOV uop_end=256 extent0=511 extent1=511 extent2=511\nFINISH"
    assert refusal(device, long).startswith("a program must take at most 4294967296 steps, not ")


@pytest.mark.parametrize("setup", [0, 1])
def test_constants_are_not_written(device: Device, setup: int) -> None:
    """They are placed once for all launches, and the machine protects no region."""
    text = (
        "LOAD memory=WGT blocks=1 rows=1 cols=1\n"
        "STORE base=constants cols=1 rows=1\n"  # of no planes
        "STORE base=outputs blocks=1 rows=1 cols=1\n"
        "STORE base=constants blocks=1 rows=1 cols=1 offset_beats=3\nFINISH"
    )
    assert refusal(device, text, setup) == (
        "a program must not write its constants, as instruction 3 (STORE) does: they are written "
        "once for all its launches; store to outputs or workspace"
    )
