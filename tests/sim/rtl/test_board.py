"""A whole board through its serial port: every bit goes over the pins of the simulated design."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.common.errors import DeviceError
from daedal.isa.random_programs import random_program
from daedal.isa.registers import ErrorCode, register
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.variant import load_variant
from daedal.runtime.devices.uart import UartPort
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.rtl.board import BoardSimulation
from examples.digits.data import demo_images
from tests.support.boards import MEMORY_BYTES, board_with, simulated_port, simulated_uart

pytestmark = [pytest.mark.rtl, pytest.mark.slow, pytest.mark.xdist_group("board")]

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def board() -> Iterator[BoardSimulation]:
    with board_with(TINY) as simulation:
        yield simulation


def check_digits(board: BoardSimulation, variant, count: int) -> None:
    """All bytes of the network's tensors equal the functional simulator's; labels are right."""
    artifact = daedal.compile(DIGITS, variant)
    images, labels = demo_images(count)
    expected = daedal.simulate(artifact, {"input": images})
    device = simulated_uart(variant, board)
    found = daedal.simulate(artifact, {"input": images}, device=device)
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes(), name
    assert (found.outputs["probabilities"].argmax(axis=1) == labels).all()
    assert len({profile.cycles for profile in found.profiles}) == 1
    assert [len(layers) for layers in found.layers] == [7] * count


def test_the_digits_network_gives_the_bytes_of_functional(board: BoardSimulation) -> None:
    check_digits(board, TINY, 2)


def test_the_digits_network_on_the_variant_made_for_the_board() -> None:
    variant = load_variant("ecp5")
    with board_with(variant) as simulation:
        check_digits(simulation, variant, 2)


def test_the_digits_network_on_a_board_with_sdram() -> None:
    """The chip's model checks every time of its data sheet."""
    artifact = daedal.compile(DIGITS, TINY)
    images, _ = demo_images(2)
    expected = daedal.simulate(artifact, {"input": images})
    with board_with(TINY, CHIPS["IS42S16160G-7"]) as simulation:
        found = daedal.simulate(
            artifact, {"input": images}, device=simulated_uart(TINY, simulation)
        )
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes(), name


@pytest.mark.parametrize("memory", [MEMORY_BYTES, CHIPS["IS42S16160G-7"]], ids=["block", "sdram"])
@pytest.mark.parametrize("seed", [0])
def test_random_programs_leave_the_same_memory(seed: int, memory: int | SdramChip) -> None:
    """On a board that has just been switched on: scratchpads and memory are zero."""
    case = random_program(TINY, seed)
    memories = []
    with board_with(TINY, memory) as fresh:
        for device in (FunctionalDevice(TINY), simulated_uart(TINY, fresh)):
            loaded = LoadedProgram.place(case.program, device)
            for number, data in case.contents.items():
                loaded.write_region(number, bytes(data))
            device.launch(case.program, loaded.bases)
            regions = range(len(case.program.region_bytes))
            memories.append([loaded.read_region(number) for number in regions])
    assert memories[0] == memories[1]


def test_a_machine_that_leaves_memory_says_so(board: BoardSimulation) -> None:
    """What lies beyond the block RAM answers DECERR, and the next run is well."""
    device = simulated_uart(TINY, board)
    case = random_program(TINY, 1)
    loaded = LoadedProgram.place(case.program, device)
    far = [MEMORY_BYTES + base for base in loaded.bases]
    with pytest.raises(DeviceError, match=rf"reported ({'|'.join(DECERRS)}) of"):
        device.launch(case.program, far)
    device.launch(case.program, loaded.bases)


DECERRS = [code.name for code in ErrorCode if code.name.endswith("DECERR")]


def test_garbage_on_the_line_does_no_harm(board: BoardSimulation, rng: np.random.Generator) -> None:
    """Of any kind and length, in front of every request; the port's own retries get through."""
    data = rng.bytes(300)
    with UartPort(str(board.path), answer_seconds=1.0) as port:
        port.write_memory(1000, data)
        for _ in range(6):
            line = os.open(board.path, os.O_WRONLY | os.O_NOCTTY)
            os.write(line, rng.bytes(int(rng.integers(1, 60))))
            os.close(line)
            assert port.read_memory(1000, 300) == data


def test_reset_brings_the_registers_back_and_keeps_memory(board: BoardSimulation) -> None:
    watchdog = register("watchdog").offset
    with simulated_port(board) as port:
        before = port.read_registers([watchdog])
        port.write_registers([(watchdog, 12345)])
        port.write_memory(0, b"kept")
        assert port.read_registers([watchdog]) == [12345]
    with simulated_port(board) as port:  # which resets the machine
        assert port.read_registers([watchdog]) == before
        assert port.read_memory(0, 4) == b"kept"
