"""The board-independent logic around the machine: serial port, bridge and memory.

Input: a variant, a memory, and the sizes that fit a board. Output: the component `Shell`, which
instantiates the machine by the name of its emitted module (`hw.emit`).
"""

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from daedal.common.bridge import MemoryTest
from daedal.hw.boards.bridge import Bridge
from daedal.hw.boards.frame_receiver import FrameReceiver
from daedal.hw.boards.frame_sender import FrameSender
from daedal.hw.boards.machine_instance import MachineInstance
from daedal.hw.boards.memory_slave import MemorySlave
from daedal.hw.boards.memory_test import StartupTest
from daedal.hw.boards.register_master import RegisterMaster
from daedal.hw.boards.sdram.controller import SdramController
from daedal.hw.boards.uart_receiver import UartReceiver
from daedal.hw.boards.uart_transmitter import UartTransmitter
from daedal.hw.family import Platform
from daedal.isa.variant import Variant

__all__ = ["Shell"]


class Shell(wiring.Component):
    """The machine, its memory, and access to both from a serial port; one clock (`sync`).

    Parameters
    ----------
    variant
        The machine.
    memory
        On-chip memory, or the controller of one outside; it becomes a submodule.
    clock_hz
        Frequency of `sync`, which the bridge reports to the host.
    divisor
        Clock cycles of a bit of the serial port.
    silence_cycles
        As `FrameReceiver` takes it.
    num_tested
        Words that are tested at start-up, as `StartupTest` takes it; 0: there is no test.

    Members
    -------
    rx, tx : the serial port.
    busy : ``Out(1)``, a request is being executed. interrupt : ``Out(1)``, the machine's.
    testing, faulty : ``Out(1)``, memory is being tested; it has failed the test.
    """

    def __init__(
        self,
        *,
        variant: Variant,
        memory: MemorySlave | SdramController,
        clock_hz: int,
        divisor: int,
        silence_cycles: int,
        num_tested: int = 0,
    ) -> None:
        self._variant = variant
        self._memory = memory
        self._clock_hz = clock_hz
        self._divisor = divisor
        self._silence_cycles = silence_cycles
        self._num_tested = num_tested
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                **{name: Out(1) for name in ("busy", "interrupt", "testing", "faulty")},
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(divisor=self._divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(divisor=self._divisor)
        m.submodules.requests = requests = FrameReceiver(silence_cycles=self._silence_cycles)
        m.submodules.answers = answers = FrameSender()
        m.submodules.bridge = bridge = Bridge(
            variant=self._variant, num_words=self._memory.num_words, clock_hz=self._clock_hz
        )
        m.submodules.memory = memory = self._memory
        registers = RegisterMaster()
        m.submodules.machine = machine = MachineInstance(variant=self._variant)
        m.submodules.registers = ResetInserter(bridge.machine_reset)(registers)

        connect(m, receiver.o, requests.i)
        connect(m, requests.request, bridge.request)
        connect(m, bridge.answer, answers.answer)
        connect(m, bridge.answer_payload, answers.payload)
        connect(m, answers.o, transmitter.i)
        self._connect_memory(m, bridge)
        connect(m, bridge.registers, registers.access)
        connect(m, registers.bus, machine.registers)
        for channel in ("ar", "aw", "w"):
            connect(m, getattr(machine, channel), getattr(memory, channel))
        for channel in ("r", "b"):
            connect(m, getattr(memory, channel), getattr(machine, channel))
        m.d.comb += [
            receiver.pin.eq(self.rx),
            self.tx.eq(transmitter.pin),
            requests.payload_address.eq(bridge.payload_address),
            bridge.payload_data.eq(requests.payload_data),
            machine.reset.eq(bridge.machine_reset),
            memory.machine_reset.eq(bridge.machine_reset),
            self.busy.eq(requests.request.valid),
            self.interrupt.eq(machine.interrupt),
        ]
        return m

    def _connect_memory(self, m: Module, bridge: Bridge) -> None:
        """The host's access to memory, through the test if there is one."""
        memory = self._memory
        if not self._num_tested:
            connect(m, bridge.memory, memory.host)
            return
        m.submodules.memory_test = test = StartupTest(
            variant=self._variant, num_words=memory.num_words, num_tested=self._num_tested
        )
        connect(m, bridge.memory, test.bridge)
        connect(m, test.memory, memory.host)
        m.d.comb += [
            bridge.memory_test.eq(test.state),
            bridge.failing_address.eq(test.address),
            self.testing.eq(test.state == MemoryTest.RUNNING),
            self.faulty.eq(test.state == MemoryTest.FAILED),
        ]
