"""What the cycle model knows: a program as arrays (`Plan`) and the machine's state in four records.

Times are cycles: cycle 0 starts the run, the machine runs from cycle 1 on. A time that is not known
yet is `NEVER`. Rings are indexed with `RING - 1`, which is more than any of them holds at a time.
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
"""Bank of a step that makes no product."""

LOAD, GEMM, ALU, STORE, FETCH = 0, 1, 2, 3, 4
"""Units, as `isa.table.Unit` numbers them."""

MARK = 3
"""The splitter of marks: 0 FETCH, 1 LOAD, 2 STORE."""

TODO_FETCH, TODO_LOADS, TODO_STORES, TODO_MARKS = 1, 2, 4, 8
"""Parts of the model that have something to go on with."""

PORTS = 5
"""Requests for accumulator banks: ALU source, ALU destination, STORE, ALU write, LOAD's fill."""


@record
class Plan:
    """A program and the machine's numbers; nothing here changes during a run.

    Instructions are counted in program order, and within their unit by `slot`: `order[order_at[u] +
    slot]` is instruction `slot` of unit u. Rows, strides and addresses are bus words.
    """

    unit: Array[i64]
    pop: Array[i64]
    push: Array[i64]
    mark: Array[i64]
    slot: Array[i64]
    order: Array[i64]
    order_at: Array[i64]
    give_at: Array[i64]
    """First token of each pair (4 * giver + taker) in `Front.gives`."""

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
    """Bus words of a row of INP."""
    gemm_lead: i64 = 0
    alu_latency: i64 = 0
    bank_bits: i64 = 0
    """Low bits of a row in its bank's number."""
    top_bit: i64 = 0
    marks_address: i64 = 0
    mark_words: i64 = 0
    read_latency: i64 = 0
    write_latency: i64 = 0
    max_reads: i64 = 0
    max_writes: i64 = 0
    shared: i64 = 0
    beat: i64 = 1


@record
class Front:
    """FETCH, queues, gates, tokens, cycle classes and the records of marks."""

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
    """Instructions of a unit whose last active cycle is known: `done_at`."""
    done_at: Array[i64]
    retired: Array[i64]
    retired_at: Array[i64]
    busy: Array[i64]
    alone: Array[i64]
    """Cycles that are busy for nothing but the acceptance of an instruction."""
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
    """Of FETCH's two places: when the last word of its instruction came, and from when on it takes
    the words of another."""
    fetch_free: Array[i64]
    fetch_index: i64 = 0
    fetch_word: i64 = 0
    fetch_last: i64 = 0
    fetch_taken: i64 = 0
    """When the last instruction was dispatched: its place is free."""
    fetch_collected: i64 = 0
    """Instructions all of whose words are there."""
    fetch_stall: i64 = 0
    finish: i64 = NEVER
    still: i64 = 0
    """First cycle from which nothing that is known of moves."""
    ticks: i64 = 0
    """Cycles that were looked at."""
    todo: i64 = 0
    """What may go on with what was decided: `TODO_FETCH` to `TODO_MARKS`."""
    changed: i64 = 0
    """An instruction retired."""


@record
class Bus:
    """Splitters, bus masters and memory. Splitters: 0 FETCH, 1 LOAD, 2 STORE, 3 marks."""

    loaded: Array[i64]
    shown: Array[i64]
    burst: Array[i64]
    burst_last: Array[i64]
    spare_shown: Array[i64]
    """Of the burst behind the one on offer, where two are `loaded`."""
    spare: Array[i64]
    spare_last: Array[i64]
    free: Array[i64]
    """From when on there is room for a burst behind a splitter."""
    left: Array[i64]
    where: Array[i64]
    begin: Array[i64]
    """From when on the rest of a request can be split."""
    ready: Array[i64]
    """When a splitter could go on to its next request."""
    queued: Array[i64]
    """Whether a request waits behind the one at hand; then when it came, and what it is."""
    queued_at: Array[i64]
    queued_where: Array[i64]
    queued_beats: Array[i64]
    queued_last: Array[i64]
    room: Array[i64]
    """From when on a splitter takes a request."""
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
    read_grant: Array[i64]
    read_due: Array[i64]
    read_end: Array[i64]

    write_writer: Array[i64]
    write_beats: Array[i64]
    write_last: Array[i64]
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
    """Of the last word of the burst before."""
    word_held: i64 = 0
    """Words before W, two at most; then from when on the first and the second are on offer, and
    from when on there is room for another."""
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
    """When the instruction at hand can go on to its job and its requests."""
    left_at: Array[i64]
    """When the last of its parts did."""
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
    """When a word went into the FIFO before the master, and when it left it."""
    word_left: Array[i64]

    mark_response: Array[i64]
    mark_out: Array[i64]

    slot_due: i64 = 0
    slot_in: i64 = 0
    slot_out: i64 = 0
    slot_acked: i64 = 0
    """Instructions with rows whose acknowledgement is known, and that many passed over."""
    requests: i64 = 0
    responses: i64 = 0

    reading: i64 = 0
    read_index: i64 = 0
    read_from: i64 = 0
    read_row: i64 = 0
    read_left: i64 = 0
    read_done: i64 = 0
    rows_read: i64 = 0
    rows_cut: i64 = 0
    rows_popped: i64 = 0
    """Rows of which a word was cut: their places are free."""
    cut_word: i64 = 0
    words_cut: i64 = 0
    words_moved: i64 = 0

    mark_unit: i64 = -1
    mark_state: i64 = 0
    """0 chooses, 1 asks, 2 gives words."""
    mark_from: i64 = 1
    mark_word: i64 = 0
    marks_sent: i64 = 0
    marks_answered: i64 = 0


@record
class Core:
    """LOAD's filler, GEMM, ALU, and the accumulators' arbitration."""

    spans: Array[i64]
    """Runs of busy cycles of the filler: first and last, in a ring."""
    pending: Array[i64]
    """Acceptances of LOAD in cycles that the filler has not reached."""

    # GEMM.
    run_at: Array[i64]
    run_step: Array[i64]
    run_size: Array[i64]
    leave_at: Array[i64]
    leave_index: Array[i64]

    # ALU.
    flight: Array[i64]
    """Results in flight, by accumulator row."""
    alu_index: Array[i64]
    alu_first: Array[i64]
    write_ready: Array[i64]
    write_row: Array[i64]
    write_kind: Array[i64]
    """1 writes accumulators, 2 ends its instruction."""
    write_index: Array[i64]

    wait_index: Array[i64]
    """Instructions of GEMM and ALU that wait for the loops, two places for each unit."""
    wait_at: Array[i64]
    waits_in: Array[i64]
    waits_out: Array[i64]
    room_at: Array[i64]
    """From when on there is room for one more of them."""

    hold: Array[i64]
    """Banks to withhold from GEMM, and when; by the cycle's lowest bit."""
    hold_at: Array[i64]
    left_row: Array[i64]
    """Rows (or -1) of the last results that were written, and when; by the cycle's lowest bit."""
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
    """Bank that the word before the accumulators waits for, or -1."""
    moved: i64 = 0
    """Whether the filler sent something on in its last cycle, and to which bank, or -1."""
    moved_bank: i64 = -1
    spare: i64 = 0
    """What it sent waits behind that word: for its bank or -1, and whether it ends its job."""
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
    """Next cycle that withholds banks from GEMM."""

    alu_need: i64 = 0
    """Tick from which on the ALU's loops take the next instruction."""
    alu_in: i64 = 0
    alu_out: i64 = 0
    alu_step: i64 = 0
    alu_group: i64 = 0
    alu_arrival: i64 = 0
    alu_tick: i64 = 0
    alu_end: i64 = 0
    """Tick `alu_tick` fell on this cycle; one per cycle follows, up to `alu_exit`."""
    alu_exit: i64 = NEVER
    """When the next step leaves the sequencer; then it stands until that is at the issue point."""
    alu_over: i64 = 0
    """When the last step was over."""
    alu_entered: i64 = 0
    """The step whose turn it is stands at the issue point."""
    alu_begin: i64 = 0
    alu_busy: i64 = 0
    """The ALU worked from `alu_begin` to here."""
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
