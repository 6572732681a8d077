"""State of the cycle model: the program as arrays (`Plan`) and the machine in four records.

Times are cycle numbers: cycle 0 starts the run, the machine runs from cycle 1 on. A time that is
not known yet is `NEVER`. Ring buffers are indexed modulo their length: `RING`, more than any of
them holds at once, or `WORD_RING` for words.
"""

from daedal.native.record import record
from daedal.native.types import Array, i32, i64, u8

__all__ = [
    "ALU",
    "FETCH",
    "GEMM",
    "LOAD",
    "MARK",
    "NEVER",
    "NO_BANK",
    "PORTS",
    "RING",
    "SDRAM",
    "SEPARATE",
    "SHARED",
    "STORE",
    "TODO_FETCH",
    "TODO_LOADS",
    "TODO_MARKS",
    "TODO_STORES",
    "WORD_RING",
    "Bus",
    "Core",
    "Front",
    "Mover",
    "Plan",
]

NEVER = 1 << 60
RING = 256
WORD_RING = 4096
NO_BANK = 255
"""Stands in place of a bank for the entry of a GEMM instruction without products."""

LOAD, GEMM, ALU, STORE, FETCH = 0, 1, 2, 3, 4
"""Units, as `isa.table.Unit` numbers them."""

MARK = 3
"""Index of the mark recorder's splitter; 0 is FETCH's, 1 LOAD's, 2 STORE's."""

SEPARATE, SHARED, SDRAM = 0, 1, 2
"""Of R and W: each moves a beat in a cycle; both together do; they are an SDRAM's (`sdram.py`)."""

TODO_FETCH, TODO_LOADS, TODO_STORES, TODO_MARKS = 1, 2, 4, 8
"""Bits of `Front.todo`: parts of the model that can make progress."""

PORTS = 5
"""Requests for accumulator banks: ALU source, ALU destination, STORE, ALU write, LOAD's fill."""


@record
class Plan:
    """A program and the machine's parameters, constant during a run.

    Instructions are numbered in program order, and within their unit by `slot`: `order[order_at[u]
    + slot]` is instruction `slot` of unit u. Addresses and strides are in bus words.
    """

    unit: Array[i64]
    pop: Array[i64]
    push: Array[i64]
    mark: Array[i64]
    slot: Array[i64]
    order: Array[i64]
    order_at: Array[i64]
    give_at: Array[i64]
    """Index in `Front.gives` of the first token of each pair (4 * giver + taker)."""

    # LOAD and STORE.
    target: Array[i64]  # LOAD: 0 others, 1 INP, 2 accumulators; STORE: 2 accumulators
    address: Array[i64]
    request_beats: Array[i64]
    blocks: Array[i64]
    rows: Array[i64]
    cols: Array[i64]
    row_stride: Array[i64]
    block_stride: Array[i64]
    first_row: Array[i64]
    row_words: Array[i64]
    pad_top: Array[i64]
    pad_bottom: Array[i64]
    pad_left: Array[i64]
    pad_right: Array[i64]

    # GEMM and ALU.
    steps: Array[i64]
    step_at: Array[i64]
    groups: Array[i64]
    form: Array[i64]  # ALU: 1 reads src, 2 reads dst, 4 writes accumulators
    banks: Array[u8]
    sources: Array[i32]
    targets: Array[i32]

    instruction_words: i64 = 0
    program_words: i64 = 0
    program_address: i64 = 0
    page_words: i64 = 0
    queue_depth: i64 = 0
    read_bursts: i64 = 0
    write_bursts: i64 = 0
    fetch_fifo: i64 = 0
    load_fifo: i64 = 0
    inp_words: i64 = 0
    """Bus words per row of INP."""
    gemm_lead: i64 = 0
    alu_latency: i64 = 0
    bank_bits: i64 = 0
    """Low bits of the row number that select the bank, together with `top_bit`."""
    top_bit: i64 = 0
    has_recorder: i64 = 0
    """Whether the machine writes marks; without a recorder they are noted and delay nothing."""
    marks_address: i64 = 0
    mark_words: i64 = 0
    read_latency: i64 = 0
    write_latency: i64 = 0
    max_reads: i64 = 0
    max_writes: i64 = 0
    sharing: i64 = 0
    """How reads and writes share the bus: `SEPARATE`, `SHARED`, `SDRAM`."""
    beat: i64 = 1
    """Cycles from one beat of a burst to the next on R; `write_beat`: on W."""
    write_beat: i64 = 1


@record
class Front:
    """FETCH, instruction queues, gates, tokens, cycle classes and mark records."""

    dispatched: Array[i64]
    passed: Array[i64]
    head: Array[i64]
    gate: Array[i64]
    ready: Array[i64]
    gives: Array[i64]
    given: Array[i64]
    taken: Array[i64]
    places_taken: Array[i64]
    places_freed: Array[i64]
    place_times: Array[i64]

    done: Array[i64]
    """Instructions of each unit whose last active cycle is known; `done_at` is the latest one."""
    done_at: Array[i64]
    retired: Array[i64]
    retired_at: Array[i64]
    busy: Array[i64]
    alone: Array[i64]
    """Cycles that count as busy only because an instruction was accepted."""
    idle: Array[i64]
    waits: Array[i64]
    work: Array[i64]

    snap_in: Array[i64]
    snap_out: Array[i64]
    snap_index: Array[i64]
    snap_time: Array[i64]
    snap_busy: Array[i64]
    snap_work: Array[i64]
    mark_cycle: Array[i64]
    mark_counts: Array[i64]
    saved: Array[i64]

    fetch_waits: Array[i64]
    fetch_complete: Array[i64]
    """For each of FETCH's two instruction buffers: when its last word arrived, and (`fetch_free`)
    when it can take the words of the next instruction."""
    fetch_free: Array[i64]
    fetch_index: i64 = 0
    fetch_word: i64 = 0
    fetch_last: i64 = 0
    fetch_taken: i64 = 0
    """When the last instruction was dispatched, which freed its buffer."""
    fetch_collected: i64 = 0
    """Instructions whose words have all arrived."""
    fetch_stall: i64 = 0
    finish: i64 = NEVER
    still: i64 = 0
    """First cycle after all activity known so far."""
    ticks: i64 = 0
    """Cycles that the model evaluated."""
    todo: i64 = 0
    """Parts that may be able to make progress: `TODO_FETCH` to `TODO_MARKS`."""
    changed: i64 = 0
    """1 if an instruction retired since this was last cleared."""


@record
class Bus:
    """Splitters, bus masters and memory. Splitters: 0 FETCH, 1 LOAD, 2 STORE, 3 marks."""

    loaded: Array[i64]
    shown: Array[i64]
    burst: Array[i64]
    burst_where: Array[i64]
    burst_last: Array[i64]
    spare_shown: Array[i64]
    """The second burst behind a splitter, where two are `loaded`: when it is shown (`spare_shown`),
    its size (`spare`) and address (`spare_where`), and what it ends (`spare_last`)."""
    spare: Array[i64]
    spare_where: Array[i64]
    spare_last: Array[i64]
    free: Array[i64]
    """When a splitter's output last freed an entry; a split burst needs one."""
    left: Array[i64]
    where: Array[i64]
    begin: Array[i64]
    """When the next burst of the current request can be split off."""
    ready: Array[i64]
    """When a splitter can start on its next request."""
    queued: Array[i64]
    """1 if a request waits behind the current one; then its arrival time and its fields."""
    queued_at: Array[i64]
    queued_where: Array[i64]
    queued_beats: Array[i64]
    queued_last: Array[i64]
    room: Array[i64]
    """When a splitter can accept its next request."""
    offered: Array[i64]
    offer_at: Array[i64]
    offer_where: Array[i64]
    offer_beats: Array[i64]
    offer_last: Array[i64]
    request_last: Array[i64]
    wanted: Array[i64]

    granted: Array[i64]
    popped: Array[i64]
    pop_time: Array[i64]
    piece_in: Array[i64]
    piece_out: Array[i64]
    piece_word: Array[i64]
    piece_size: Array[i64]
    piece_at: Array[i64]

    read_reader: Array[i64]
    read_beats: Array[i64]
    read_where: Array[i64]
    read_grant: Array[i64]
    read_due: Array[i64]
    read_end: Array[i64]

    write_writer: Array[i64]
    write_beats: Array[i64]
    write_where: Array[i64]
    write_last: Array[i64]
    write_end: Array[i64]
    """When the last word of a burst crossed W; only for an SDRAM."""
    write_grant: Array[i64]
    write_open: Array[i64]
    write_ack: Array[i64]

    ar_free: i64 = 0
    reads: i64 = 0
    reads_asked: i64 = 0
    reads_ended: i64 = 0
    read_beat: i64 = 0
    read_free: i64 = 0
    beats_read: i64 = 0

    aw_free: i64 = 0
    writes: i64 = 0
    writes_asked: i64 = 0
    writes_moved: i64 = 0
    writes_acked: i64 = 0
    write_beat: i64 = 0
    bursts_moved: i64 = 0
    write_free: i64 = 0
    move_beat: i64 = 0
    burst_move: i64 = 0
    """When the last word of the previous burst moved."""
    word_held: i64 = 0
    """Words buffered before W, at most two; `word_from` and `spare_from` are when the first and the
    second become valid, `word_room` when the buffer can take another."""
    word_from: i64 = 0
    spare_from: i64 = 0
    word_room: i64 = 0
    beats_written: i64 = 0
    write_turn: i64 = 0
    fetch_asked: i64 = 0
    fetch_from: i64 = 2
    ack_last: i64 = 0


@record
class Mover:
    """LOAD's and STORE's fronts (index 0, 1), STORE's reader, and the recorder of marks."""

    held: Array[i64]
    held_from: Array[i64]
    """When the held instruction can be issued to its job and its requests."""
    left_at: Array[i64]
    """When the latest of its parts was issued."""
    job_due: Array[i64]
    walk_due: Array[i64]
    job_in: Array[i64]
    job_out: Array[i64]
    job_push: Array[i64]
    job_pop: Array[i64]
    job_index: Array[i64]
    walking: Array[i64]
    walk_index: Array[i64]
    walk_at: Array[i64]
    walk_free: Array[i64]
    walk_rows: Array[i64]
    walk_blocks: Array[i64]
    row_address: Array[i64]
    block_address: Array[i64]

    slot_push: Array[i64]
    slot_pop: Array[i64]
    slot_index: Array[i64]
    slot_ack: Array[i64]
    response: Array[i64]

    row_ready: Array[i64]
    row_pop: Array[i64]
    row_size: Array[i64]
    row_ends: Array[i64]
    word_at: Array[i64]
    """When a word entered the FIFO before the write master; `word_left`: when it left."""
    word_left: Array[i64]

    mark_response: Array[i64]
    mark_out: Array[i64]

    slot_due: i64 = 0
    slot_in: i64 = 0
    slot_out: i64 = 0
    slot_acked: i64 = 0
    """Slots up to which acknowledgement times are known, instructions without rows included."""
    requests: i64 = 0
    responses: i64 = 0

    reading: i64 = 0
    read_index: i64 = 0
    read_from: i64 = 0
    read_row: i64 = 0
    read_left: i64 = 0
    read_done: i64 = 0
    rows_read: i64 = 0
    rows_popped: i64 = 0
    """Rows whose last word left the row buffer, which frees their entries."""
    row_word: i64 = 0
    words_held: i64 = 0
    """Words that entered the register before the FIFO; the latest did so in cycle `held_at`, and
    ends its instruction if `held_ends` is 1. `words_cut` of them have entered the FIFO."""
    held_at: i64 = 0
    held_ends: i64 = 0
    words_cut: i64 = 0
    words_moved: i64 = 0

    mark_unit: i64 = -1
    mark_state: i64 = 0
    """0: choosing a record, 1: requesting a burst, 2: sending words."""
    mark_from: i64 = 1
    mark_word: i64 = 0
    marks_sent: i64 = 0
    marks_answered: i64 = 0


@record
class Core:
    """LOAD's filler, GEMM, the ALU, and accumulator arbitration."""

    spans: Array[i64]
    """Intervals of the filler's busy cycles (first, last), as a ring."""
    pending: Array[i64]
    """Cycles in which LOAD accepted an instruction and which the filler has not reached yet."""

    # GEMM.
    run_at: Array[i64]
    run_step: Array[i64]
    run_size: Array[i64]
    leave_at: Array[i64]
    leave_index: Array[i64]

    # ALU.
    flight: Array[i64]
    """Number of ALU results in flight for each accumulator row."""
    alu_index: Array[i64]
    alu_first: Array[i64]
    write_ready: Array[i64]
    write_row: Array[i64]
    write_kind: Array[i64]
    """Bits: 1 writes accumulators, 2 is the last of its instruction."""
    write_index: Array[i64]

    wait_index: Array[i64]
    """Instructions of GEMM and ALU queued for the hardware loops, two entries per unit."""
    wait_at: Array[i64]
    waits_in: Array[i64]
    waits_out: Array[i64]
    room_at: Array[i64]
    """When that queue last freed an entry."""

    hold: Array[i64]
    """Mask of banks withheld from GEMM in cycle `hold_at`; indexed by the cycle's lowest bit."""
    hold_at: Array[i64]
    left_row: Array[i64]
    """Rows (or -1) of the latest ALU results written, in cycle `left_at`; indexed by the cycle's
    lowest bit."""
    left_at: Array[i64]
    age: Array[i64]
    urgent: Array[i64]
    lost: Array[i64]

    on: i64 = 0
    index: i64 = 0
    begin: i64 = 0
    now: i64 = 0
    over: i64 = 0
    target: i64 = 0
    words: i64 = 0
    words_left: i64 = 0
    beat: i64 = 0
    bare: i64 = 0
    has_data: i64 = 0
    data_done: i64 = 0
    data_in: i64 = 0
    data_left: i64 = 0
    data_y: i64 = 0
    data_block: i64 = 0
    data_row: i64 = 0
    pad_done: i64 = 0
    pad_in_x: i64 = 0
    pad_in_y: i64 = 0
    pad_x: i64 = 0
    pad_y: i64 = 0
    pad_block: i64 = 0
    pad_row: i64 = 0
    missing: i64 = 0
    fill_bank: i64 = -1
    """Bank that the word at the accumulators' input waits for, or -1."""
    moved: i64 = 0
    """1 if the filler produced a word in its last cycle; `moved_bank` is its bank, or -1."""
    moved_bank: i64 = -1
    spare: i64 = 0
    """1 if another word waits behind that at the input; its bank (or -1), and 1 if it ends its
    job."""
    spare_bank: i64 = 0
    spare_ends: i64 = 0
    ending: i64 = 0
    ending_index: i64 = 0
    fill_try: i64 = NEVER
    span_count: i64 = 0
    pending_in: i64 = 0
    pending_out: i64 = 0

    runs: i64 = 0
    issues: i64 = 0
    last_issue: i64 = 0
    leaves_in: i64 = 0
    leaves_out: i64 = 0
    stalled: i64 = -1
    hold_due: i64 = NEVER
    """Next cycle in which banks are withheld from GEMM."""

    alu_need: i64 = 0
    """First tick in which the ALU's loops accept the next instruction."""
    alu_in: i64 = 0
    alu_out: i64 = 0
    alu_step: i64 = 0
    alu_group: i64 = 0
    alu_arrival: i64 = 0
    alu_tick: i64 = 0
    alu_end: i64 = 0
    """Cycle of tick `alu_tick`; one tick per cycle follows, up to `alu_exit`."""
    alu_exit: i64 = NEVER
    """When the next step leaves the sequencer, which then stalls until the step is at the issue
    point."""
    alu_over: i64 = 0
    """When the last group of the previous step started."""
    alu_entered: i64 = 0
    """1 if the current step is at the issue point."""
    alu_begin: i64 = 0
    alu_busy: i64 = 0
    """Last cycle of the ALU's latest busy interval, which began in `alu_begin`."""
    alu_vector: i64 = 0
    alu_try: i64 = NEVER
    alu_source: i64 = 0
    alu_target: i64 = 0
    alu_blocked: i64 = 0
    write_in: i64 = 0
    write_out: i64 = 0
    write_try: i64 = NEVER
    write_end: i64 = 0
    store_try: i64 = NEVER
