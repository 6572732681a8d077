"""The uio device against files that look like those of Linux, with a machine behind them."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import DeviceError, UserError
from daedal.devices import device_names, open_device
from daedal.isa.latencies import PAGE_BYTES
from daedal.isa.registers import ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.runtime.devices.lock import lock_device
from daedal.runtime.devices.sysfs import read_number, write_attribute
from daedal.runtime.devices.uio import UioDevice
from daedal.runtime.driver import LoadedProgram
from examples.digits.data import demo_images
from tests.support.uio_machine import UioMachine

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def digits() -> Artifact:
    return daedal.compile(DIGITS, TINY)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UioMachine]:
    with UioMachine(TINY, tmp_path) as machine:
        monkeypatch.setattr(
            "daedal.runtime.devices.dma_buffer.write_attribute", machine.take_attribute
        )
        yield machine


def opened(board: UioMachine, **options) -> UioDevice:
    return UioDevice(TINY, **board.options, **options)


def loaded(digits: Artifact, device: UioDevice) -> LoadedProgram:
    return LoadedProgram.place(digits.launches[0].program, device)


def test_digits_equal_functional(digits: Artifact, board: UioMachine) -> None:
    images, _labels = demo_images(3)
    expected = daedal.simulate(digits, {"input": images})
    found = daedal.simulate(digits, {"input": images}, device="uio", **board.options)
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes()
    assert found.profiles[0].device == "uio"
    assert board.interrupts == 3


def test_it_is_found_by_its_name(board: UioMachine) -> None:
    assert "uio" in device_names()
    assert isinstance(open_device("uio", TINY, **board.options), UioDevice)


def test_bytes_beside_those_of_the_machine_survive(
    board: UioMachine, rng: np.random.Generator
) -> None:
    """Host and machine write into the same cache lines, by turns."""
    device = opened(board)
    region = device.alloc(PAGE_BYTES)
    truth = rng.bytes(PAGE_BYTES)
    board.machine.write_memory(region, truth)
    for _ in range(50):
        at, size = rng.integers(0, PAGE_BYTES), rng.integers(0, 100)
        ours, theirs = rng.bytes(min(size, PAGE_BYTES - at)), rng.bytes(1)
        device.write(region + int(at), ours)
        truth = truth[:at] + ours + truth[at + len(ours) :]
        there = int(rng.integers(0, PAGE_BYTES))
        board.machine.write_memory(region + there, theirs)
        truth = truth[:there] + theirs + truth[there + 1 :]
    assert board.machine.read_memory(region, PAGE_BYTES) == truth
    assert device.read(region + 5, PAGE_BYTES - 9) == truth[5:-4]


def test_nothing_is_told_of_no_bytes(board: UioMachine) -> None:
    device = opened(board)
    device.write(device.alloc(1), b"")
    assert device.read(device.alloc(1), 0) == b""
    assert board.commands == []


def test_the_sleep_ends_with_the_interrupt(digits: Artifact, board: UioMachine) -> None:
    """Ten sleeps to their ends would take 2.5 s."""
    run = loaded(digits, opened(board))
    begin = time.monotonic()
    for _ in range(10):
        run.device.launch(run.program, run.bases)
    assert time.monotonic() - begin < 2
    assert board.interrupts == 10


def test_a_lost_interrupt_costs_a_quarter_second(digits: Artifact, board: UioMachine) -> None:
    run = loaded(digits, opened(board))
    board.loses_interrupts = True
    profile = run.device.launch(run.program, run.bases)
    assert 0.2 < profile.wall_seconds < 5
    board.loses_interrupts = False
    run.device.launch(run.program, run.bases)


def test_errors_of_the_machine_are_raised(digits: Artifact, board: UioMachine) -> None:
    run = loaded(digits, opened(board))
    board.machine.error = (ErrorCode.READ_DECERR, Unit.LOAD, 3)
    with pytest.raises(DeviceError, match="it reported READ_DECERR of LOAD at instruction 3"):
        run.device.launch(run.program, run.bases)
    run.device.launch(run.program, run.bases)


def test_a_run_that_does_not_end_is_aborted(digits: Artifact, board: UioMachine) -> None:
    device = opened(board, timeout_seconds=0.1)
    run = loaded(digits, device)
    board.machine.hangs = True
    message = "a run on the uio device must end within 0.1 seconds; it did not and was aborted"
    with pytest.raises(DeviceError, match=message):
        run.device.launch(run.program, run.bases)
    assert ("write", "abort") in board.machine.log
    board.machine.hangs = False
    device.close()
    # With the usual timeout: this run may take longer than 0.1 s.
    again = loaded(digits, opened(board))
    again.device.launch(again.program, again.bases)


def test_another_machine_is_refused(board: UioMachine) -> None:
    board.machine.set_wide("fingerprint", 0xABC)
    board.publish()
    message = f"must be of fingerprint {TINY.fingerprint}; it answers 0000000000000abc"
    with pytest.raises(DeviceError, match=message):
        opened(board)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (
            "registers",
            "uio7",
            "a driver must tell about its device in /sys; .*/uio7/maps/map0/s",
        ),
        ("memory", "udmabuf7", "u-dma-buf/udmabuf7/phys_addr' cannot be read: No such file"),
        (
            "interrupt",
            "nothing",
            "the interrupt must be a UIO device that can be opened; .*noth",
        ),
    ],
)
def test_paths_that_are_no_devices_are_refused(
    board: UioMachine, option: str, value: str, message: str
) -> None:
    options = {**board.options, option: str(board.folder / value)}
    with pytest.raises(UserError, match=message):
        UioDevice(TINY, **options)


@pytest.mark.parametrize(
    ("attribute", "text", "message"),
    [
        ("uio/uio0/maps/map0/size", "0x100", "map 0 of .* must hold the 4096 bytes .* not 256"),
        ("u-dma-buf/udmabuf0/size", "many", "udmabuf0/size' cannot be read: it is no number"),
        ("u-dma-buf/udmabuf0/size", "0", "a buffer must have a size; .* has 0 bytes"),
        ("u-dma-buf/udmabuf0/phys_addr", "0xffffffff", "memory must lie below 0x100000000"),
    ],
)
def test_drivers_that_tell_nonsense_are_refused(
    board: UioMachine, attribute: str, text: str, message: str
) -> None:
    (board.folder / "sys" / "class" / attribute).write_text(text)
    with pytest.raises((UserError, DeviceError), match=message):
        opened(board)


def test_a_device_that_is_gone_is_named(board: UioMachine) -> None:
    os.remove(board.folder / "udmabuf0")
    message = f"a device must be there .*{re.escape(str(board.folder))}/udmabuf0' is not: No such"
    with pytest.raises(UserError, match=message):
        opened(board)


def test_an_older_driver_of_the_buffer_will_do(digits: Artifact, board: UioMachine) -> None:
    folder = board.folder / "sys" / "class"
    (folder / "u-dma-buf").rename(folder / "udmabuf")
    assert opened(board).alloc(1) == board.machine.base


def test_an_interrupt_that_cannot_be_waited_for_is_named(
    digits: Artifact, board: UioMachine
) -> None:
    """A descriptor that is there and takes no writes, as that of a UIO device without interrupt."""
    run = loaded(digits, UioDevice(TINY, **{**board.options, "interrupt": "/dev/full"}))
    board.machine.hangs = True
    message = "the UIO device must have an interrupt; '/dev/full' has none that works: No space"
    with pytest.raises(DeviceError, match=message):
        run.device.launch(run.program, run.bases)
    board.machine.hangs = False


def test_numbers_and_commands_pass_through_files(tmp_path: Path) -> None:
    path = tmp_path / "attribute"
    path.write_text("")
    write_attribute(path, "0x10")
    assert read_number(path) == 16
    with pytest.raises(DeviceError, match=r"the driver must take '1' in .*none'; it does not: No"):
        write_attribute(tmp_path / "none", "1")


def test_a_board_belongs_to_one_device(board: UioMachine) -> None:
    first = opened(board)
    for number in range(2):
        with pytest.raises(UserError) as caught:
            opened(board)
        place = board.options["memory"]
        assert str(caught.value) == (
            f"a board must be used by one device of one process at a time, and {place!r} is in "
            "use: end the other process, or close the other device"
        ), number
    first.close()
    second = opened(board)
    with pytest.raises(UserError, match="must be used by one device of one process"):
        opened(board)
    del second  # nothing is left open where a device is no longer used
    opened(board).close()


def test_the_registers_are_locked_too(board: UioMachine) -> None:
    """Two machines may share a buffer by mistake, or two buffers a machine."""
    (board.folder / "other").mkdir()
    with open(board.options["registers"]) as handle:
        lock_device(handle.fileno(), "registers")
        with pytest.raises(UserError, match="uio0' is in use"):
            opened(board)
    opened(board).close()
