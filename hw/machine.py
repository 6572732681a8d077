"""The whole accelerator: units, scratchpads, tokens, bus masters and control, wired together.

Input: a variant. Output: the component `Machine`, whose pins are the accelerator's. Nothing is
computed here; docs/hardware.md shows the same blocks as a diagram.
"""

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from daedal.hw.alu.alu import Alu
from daedal.hw.bus.axi import axi4_lite_pins, axi4_pins, connect_axi4_pins
from daedal.hw.bus.read_master import ReadMaster
from daedal.hw.bus.write_master import WriteMaster
from daedal.hw.contracts import checks_contracts
from daedal.hw.control.control import Control
from daedal.hw.control.counters import Counters
from daedal.hw.control.marks import MarkRecorder
from daedal.hw.control.supervisor import Supervisor
from daedal.hw.family import Platform
from daedal.hw.gemm.gemm import Gemm
from daedal.hw.issue.fetch import Fetch
from daedal.hw.issue.gate import IssueGate
from daedal.hw.issue.tokens import QUEUED_UNITS, TokenFile
from daedal.hw.load.load import Load
from daedal.hw.machine_contracts import check_machine
from daedal.hw.machine_latencies import check_latencies
from daedal.hw.memory.accumulators import Accumulators
from daedal.hw.memory.scratchpad import OutScratchpad, Scratchpad
from daedal.hw.memory.table_memory import TableMemory
from daedal.hw.observe import connect_observation, observation_layout
from daedal.hw.primitives.replicated import Replicated
from daedal.hw.store.store import Store
from daedal.isa.registers import CONTROL_ADDRESS_BITS
from daedal.isa.scratchpad import Memory
from daedal.isa.table import INSTRUCTIONS, Opcode, Unit
from daedal.isa.variant import Variant

__all__ = ["CONTROL_PREFIX", "MEMORY_PREFIX", "Machine", "machine_parts", "machine_pins"]

MEMORY_PREFIX = "m_axi_gmem_"
CONTROL_PREFIX = "s_axi_control_"


def machine_pins(variant: Variant) -> dict[str, wiring.Member]:
    """The accelerator's pins by name."""
    return {
        "ap_clk": In(1),
        "ap_rst_n": In(1),
        "interrupt": Out(1),
        **axi4_pins(variant, MEMORY_PREFIX),
        **axi4_lite_pins(CONTROL_ADDRESS_BITS, CONTROL_PREFIX),
    }


class Machine(wiring.Component):
    """Top level; one clock, synchronous reset, all pins by their names.

    Members
    -------
    ap_clk, ap_rst_n : clock, and reset (active low, synchronous).
    interrupt : level.
    observe : (only with `observe`) every write into a scratchpad, every start and end of an
        instruction: `observe.observation_layout`.
    m_axi_gmem_* : AXI4 master. s_axi_control_* : AXI4-Lite slave.
    """

    def __init__(self, *, variant: Variant, observe: bool = False) -> None:
        self._variant = variant
        self._observe = observe
        super().__init__(
            {
                **machine_pins(variant),
                **({"observe": Out(observation_layout(variant))} if observe else {}),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        check_latencies()
        m.domains.sync = ClockDomain()
        blocks = _Blocks(m, self._variant)
        blocks.connect_resets(m, self, platform)
        blocks.connect_instructions(m)
        blocks.connect_data(m)
        blocks.connect_bus(m, self)
        blocks.connect_run(m)
        blocks.connect_counters(m)
        blocks.connect_control(m, self)
        if checks_contracts(platform):
            check_machine(m, platform, blocks)
        if self._observe:
            connect_observation(m, self._variant, blocks, self.observe)
        return m


_KEPT = frozenset({"control", "supervisor", "counters"})
"""Parts that only the reset pin resets: they report what happened in a run that was aborted."""


def machine_parts(variant: Variant) -> dict[str, wiring.Component]:
    """The machine's parts by name, each a component of its own, not connected yet."""
    parts: dict[str, wiring.Component] = {
        "control": Control(variant=variant),
        "supervisor": Supervisor(variant=variant),
        "counters": Counters(variant=variant),
        "read_master": ReadMaster(variant=variant),
        "write_master": WriteMaster(variant=variant),
        "fetch": Fetch(variant=variant),
        "tokens": TokenFile(variant=variant),
    }
    if variant.units.counters:  # which marks record
        parts["mark_recorder"] = MarkRecorder(variant=variant)
    for unit in QUEUED_UNITS:
        parts[_gate_name(unit)] = IssueGate(variant=variant, opcode=_opcode(unit))
    return {
        **parts,
        "load": Load(variant=variant),
        "gemm": Gemm(variant=variant),
        "alu": Alu(variant=variant),
        "store": Store(variant=variant),
        "inp": Scratchpad(variant=variant, memory=Memory.INP),
        "wgt": Scratchpad(variant=variant, memory=Memory.WGT),
        "par": Scratchpad(variant=variant, memory=Memory.PAR),
        **({"tab": TableMemory(variant=variant)} if variant.memory.tables else {}),
        "out": OutScratchpad(variant=variant),
        "accumulators": Accumulators(variant=variant),
    }


class _Blocks:
    """All submodules, and the wiring between them: one method per concern."""

    def __init__(self, m: Module, variant: Variant) -> None:
        self.variant = variant
        self.cleared: list[ClockDomain] = []
        self.kept: list[ClockDomain] = []
        self.reset = Signal(reset_less=True)

        parts = machine_parts(variant)
        for name, component in parts.items():
            domain = ClockDomain(name)
            (self.kept if name in _KEPT else self.cleared).append(domain)
            m.submodules[name] = DomainRenamer(name)(component)
        self.control, self.supervisor = parts["control"], parts["supervisor"]
        self.counters = parts["counters"]
        self.read_master, self.write_master = parts["read_master"], parts["write_master"]
        self.fetch, self.tokens = parts["fetch"], parts["tokens"]
        self.marks = parts.get("mark_recorder")
        self.gates = {unit: parts[_gate_name(unit)] for unit in QUEUED_UNITS}
        self.load, self.gemm = parts["load"], parts["gemm"]
        self.alu, self.store = parts["alu"], parts["store"]
        self.units = dict(
            zip(QUEUED_UNITS, (self.load, self.gemm, self.alu, self.store), strict=True)
        )
        self.inp, self.wgt, self.par = parts["inp"], parts["wgt"], parts["par"]
        self.out, self.accumulators = parts["out"], parts["accumulators"]
        self.tab = parts.get("tab")

    def connect_resets(self, m: Module, top: Machine, platform: Platform) -> None:
        """Give every block a reset register of its own; only the pin resets those in `kept`.

        The resets follow the pin and `clear` by one cycle, as the masters' `stop` follows the
        supervisor's. In that cycle the pins are inactive, and the masters are reset, too: any
        request or word still on offer is dropped.
        """
        clears = self.supervisor.clear | ~top.ap_rst_n
        m.d.sync += self.reset.eq(~top.ap_rst_n)
        cleared = Replicated(m, platform, clears, name="reset")
        kept = Replicated(m, platform, ~top.ap_rst_n, name="pin_reset")
        m.domains += [*self.cleared, *self.kept]
        resets = {
            "sync": self.reset,
            **{domain.name: cleared.copy_for(domain.name) for domain in self.cleared},
            **{domain.name: kept.copy_for(domain.name) for domain in self.kept},
        }
        for name, held in resets.items():
            m.d.comb += [ClockSignal(name).eq(top.ap_clk), ResetSignal(name).eq(held)]
        stop = Replicated(m, platform, self.supervisor.stop, name="stop")
        m.d.comb += [
            self.read_master.stop.eq(stop.copy_for("read_master")),
            self.write_master.stop.eq(stop.copy_for("write_master")),
        ]

    def connect_instructions(self, m: Module) -> None:
        """FETCH -> queues and gates -> units -> tokens."""
        for unit in QUEUED_UNITS:
            gate, executor = self.gates[unit], self.units[unit]
            connect(m, self.fetch.queue[unit], gate.queue)
            connect(m, gate.issue, executor.issue)
            connect(m, executor.retire, self.tokens.retire[unit])
            m.d.comb += [
                gate.available.eq(self.tokens.available[unit]),
                gate.plenty.eq(self.tokens.plenty[unit]),
                gate.coming.eq(self.tokens.coming[unit]),
                self.tokens.take[unit].eq(gate.take),
                gate.activity.eq(executor.activity),
            ]

    def connect_data(self, m: Module) -> None:
        """LOAD -> scratchpads -> GEMM, ALU, STORE, and the accumulators that they share."""
        targets = [self.inp, self.wgt, self.par, self.gemm, self.alu, self.accumulators]
        if self.tab is not None:
            targets.append(self.tab)
            connect(m, self.alu.lookup, self.tab.lookup)
        for target in targets:
            m.d.comb += [
                target.fill.payload.eq(self.load.fill.payload),
                target.fill.valid.eq(self.load.fill.valid),
            ]
        # Only the accumulators may stall a fill; their ready is always 1 for fills of other
        # memories.
        m.d.comb += self.load.fill.ready.eq(self.accumulators.fill.ready)
        connect(m, self.load.pads, self.inp.pads)
        connect(m, self.gemm.inp_read, self.inp.read)
        connect(m, self.gemm.wgt_read, self.wgt.read)
        connect(m, self.alu.par_read, self.par.read)
        connect(m, self.alu.out_write, self.out.write)
        connect(m, self.store.out_read, self.out.read)
        if self.variant.units.gemm_reads_out:
            connect(m, self.gemm.out_read, self.out.operand)
        m.d.comb += self.gemm.gemm_hold.eq(self.accumulators.gemm_hold)
        for name in ("gemm_read", "gemm_write"):
            connect(m, getattr(self.gemm, name), getattr(self.accumulators, name))
        for name in ("alu_read", "alu_read2", "alu_write", "alu_data", "alu_data2"):
            connect(m, getattr(self.alu, name), getattr(self.accumulators, name))
        for name in ("alu_wants", "alu_waits"):
            m.d.comb += getattr(self.accumulators, name).eq(getattr(self.alu, name))
        for name in ("read_closed", "write_closed"):
            m.d.comb += getattr(self.alu, name).eq(getattr(self.accumulators, name))
        connect(m, self.store.acc_read, self.accumulators.store_read)
        connect(m, self.accumulators.store_data, self.store.acc_data)

    def connect_bus(self, m: Module, top: Machine) -> None:
        """Readers and writers -> masters -> pins."""
        reads, writes = self.read_master, self.write_master
        for number, reader in enumerate((self.fetch, self.load)):
            connect(m, reader.request, reads.request[number])
            connect(m, reads.data[number], reader.data)
        for number, writer in enumerate((self.store, self.marks)):
            if writer is not None:
                connect(m, writer.request, writes.request[number])
                connect(m, writer.data, writes.data[number])
                connect(m, writes.response[number], writer.response)
        connect_axi4_pins(
            m,
            top,
            MEMORY_PREFIX,
            self.variant,
            self.reset,
            ar=reads.ar,
            r=reads.r,
            aw=writes.aw,
            w=writes.w,
            b=writes.b,
        )

    def connect_run(self, m: Module) -> None:
        """The supervisor: the status that it observes, and its commands."""
        supervisor, fetch = self.supervisor, self.fetch
        for unit in QUEUED_UNITS:
            gate = self.gates[unit]
            connect(m, gate.error, supervisor.gate_error[unit])
            connect(m, self.units[unit].error, supervisor.error[unit])
            m.d.comb += [
                supervisor.activity[unit].eq(self.units[unit].activity),
                supervisor.waiting[unit].eq(gate.waiting),
                supervisor.vacant[unit].eq(gate.vacant),
                supervisor.index[unit].eq(gate.index),
            ]
        connect(m, fetch.error, supervisor.error[Unit.FETCH])
        connect(m, self.tokens.error, supervisor.token_error)
        m.d.comb += [
            supervisor.token_error_unit.eq(self.tokens.error_unit),
            supervisor.tokens_left.eq(self.tokens.left),
            supervisor.fetch_class.eq(fetch.cycle_class),
            supervisor.fetch_index.eq(fetch.index),
            supervisor.fetch_done.eq(fetch.done),
            fetch.start.eq(supervisor.begin),
            fetch.all_quiet.eq(supervisor.all_quiet),
            supervisor.drained.eq(self.read_master.drained & self.write_master.drained),
            supervisor.beat.eq(self.read_master.beat | self.write_master.beat),
        ]
        self._connect_marks(m)

    def _connect_marks(self, m: Module) -> None:
        marks, control = self.marks, self.control
        if marks is None:
            m.d.comb += self.supervisor.marks_idle.eq(1)
            return
        connect(m, marks.error, self.supervisor.mark_error)
        m.d.comb += [
            self.supervisor.mark_error_unit.eq(marks.error_unit),
            self.supervisor.marks_idle.eq(marks.idle),
            control.marks_written.eq(marks.written),
            marks.base_address.eq(control.marks),
            marks.capacity.eq(control.marks_capacity),
            marks.restart.eq(self.supervisor.begin),
            marks.cycle.eq(self.counters.cycles),
        ]
        for unit in QUEUED_UNITS:
            gate, retire = self.gates[unit], marks.retire[unit]
            m.d.comb += [
                retire.valid.eq(self.units[unit].retire.valid),
                retire.payload.eq(self.units[unit].retire.payload),
                marks.counts[unit].eq(self.counters.counts[unit]),
                marks.taken[unit].eq(gate.mark_taken),
                gate.mark_available.eq(marks.available[unit]),
                gate.mark_plenty.eq(marks.plenty[unit]),
                gate.mark_coming.eq(marks.coming[unit]),
                gate.marks_enabled.eq(marks.enabled),
            ]

    def connect_counters(self, m: Module) -> None:
        """Class and work of every unit, and words on the bus, to the counters."""
        counters = self.counters
        m.d.comb += [
            counters.running.eq(self.supervisor.counting),
            counters.clear.eq(self.supervisor.begin),
            counters.beat_read.eq(self.read_master.beat),
            counters.beat_written.eq(self.write_master.beat),
            counters.cycle_class[Unit.FETCH].eq(self.fetch.cycle_class),
            counters.work[Unit.FETCH].eq(self.fetch.work),
        ]
        for unit in QUEUED_UNITS:
            m.d.comb += [
                counters.cycle_class[unit].eq(self.gates[unit].cycle_class),
                counters.work[unit].eq(self.units[unit].work),
            ]

    def connect_control(self, m: Module, top: Machine) -> None:
        """Registers: pins, settings, status."""
        control, supervisor = self.control, self.supervisor
        for name, member in axi4_lite_pins(CONTROL_ADDRESS_BITS, "").items():
            inside, pin = getattr(control, name), getattr(top, f"{CONTROL_PREFIX}{name}")
            shown = inside & ~self.reset if name.endswith(("valid", "ready")) else inside
            m.d.comb += inside.eq(pin) if member.flow is In else pin.eq(shown)
        m.d.comb += [
            top.interrupt.eq(control.interrupt & ~self.reset),
            supervisor.start.eq(control.start),
            supervisor.abort.eq(control.abort),
            supervisor.watchdog.eq(control.watchdog),
            supervisor.drain_limit.eq(control.drain_limit),
            control.running.eq(supervisor.running),
            control.finished.eq(supervisor.finished),
            control.error_code.eq(supervisor.error_code),
            control.error_unit.eq(supervisor.error_unit),
            control.error_index.eq(supervisor.error_index),
            self.fetch.program_word_address.eq(control.program),
            self.fetch.length.eq(control.program_length),
            self.load.base_address.eq(control.base_address),
            self.store.base_address.eq(control.base_address),
            self.load.region_words.eq(control.region_words),
            self.store.region_words.eq(control.region_words),
        ]
        for name in ("cycles", "beats_read", "beats_written"):
            m.d.comb += getattr(control, name).eq(getattr(self.counters, name))
        for unit in Unit:
            m.d.comb += control.counts[unit].eq(self.counters.counts[unit])


def _gate_name(unit: Unit) -> str:
    return f"{unit.name.lower()}_gate"


def _opcode(unit: Unit) -> Opcode:
    return next(form.opcode for form in INSTRUCTIONS.values() if form.unit is unit)
