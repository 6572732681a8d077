"""The accelerator's back end: a scheduled function becomes a `Segment`.

Loops outside the tensorized nests are unrolled here, with constant indices. Each nest becomes one
instruction if possible, otherwise several. Entering an `Allocate` creates new instances, whose rows
`daedal.compiler.link` chooses. The iterations of a "virtual_thread" loop are interleaved nest by
nest, and each has its own instances.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.concrete import Env
from daedal.compiler.codegen.copies import Copies
from daedal.compiler.codegen.forms import (
    BlockForm,
    Form,
    block_form,
    form_of,
    leaf_form,
    pure_nest,
)
from daedal.compiler.codegen.inplace import embeddings, shared_rows, window_interiors
from daedal.compiler.codegen.instances import MEMORIES, LiveBuffer, embedded, live_buffer
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.codegen.operations import OperationBuilder
from daedal.compiler.codegen.padding import interiors
from daedal.compiler.codegen.repeats import Repeats
from daedal.compiler.codegen.segment import Instance, Segment, SegmentInstruction
from daedal.compiler.codegen.transfers import TransferBuilder
from daedal.compiler.codegen.windows import is_neutral
from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.stmt import Allocate, Allocation, BlockRealize, For, PrimFunc, Seq, Stmt
from daedal.isa.table import AluOp
from daedal.isa.variant import Variant

__all__ = ["COPIES", "MAX_LAYER_INSTRUCTIONS", "Emitter", "Thread", "emit_segment"]

MAX_LAYER_INSTRUCTIONS = 1 << 17
"""Bound on one layer: the outer loops of a map as large as a model may claim run for hours."""

PureNest = tuple[tuple[For, ...], BlockRealize]

COPIES = frozenset({"load", "load_widen", "store"})
"""Intrinsics that move data; their nests are boxes."""


def emit_segment(
    func: PrimFunc,
    variant: Variant,
    names: Mapping[str, str] | None = None,
    name: str = "",
    views: Mapping[str, MemoryView] | None = None,
) -> Segment:
    """Emit `func`, every block of which is tensorized with the accelerator's intrinsics.

    Parameters
    ----------
    names : program-wide names of `func`'s parameters; a parameter not in it keeps its name.
    name : the segment's name; if empty, the function's.
    views : memory views of parameters by name; a parameter not in it is dense.

    Raises
    ------
    ScheduleError
        A block is not tensorized, a buffer is too large, an operand is in the wrong memory, or the
        layer takes more than `MAX_LAYER_INSTRUCTIONS`.
    """
    given = names or {}
    tensors = {buffer: given.get(buffer.name, buffer.name) for buffer in func.params}
    known = views or {}
    strided = {buffer: known[buffer.name] for buffer in func.params if buffer.name in known}
    emitter = Emitter(func, variant, TransferBuilder(variant, tensors, strided))
    emitter.visit(func.body, [Thread((), {}, {})])
    return Segment(
        name or func.name, tuple(emitter.instructions), dict(emitter.transfers.tensor_bytes)
    )


@dataclass(frozen=True)
class Thread:
    """State of a virtual thread: its index in each thread loop, its loop values, its buffers."""

    number: tuple[int, ...]
    env: Env
    live: dict[Buffer, LiveBuffer]

    def at(self, var: Var, value: int) -> "Thread":
        return Thread(self.number, {**self.env, var: value}, self.live)

    def split(self, var: Var, extent: int) -> "list[Thread]":
        """The threads of a loop; they share the buffers that are live now."""
        return [
            Thread((*self.number, value), {**self.env, var: value}, dict(self.live))
            for value in range(extent)
        ]


class Emitter:
    """Emits a function, statement by statement; `count_instructions` walks it the same way."""

    def __init__(self, func: PrimFunc, variant: Variant, transfers: TransferBuilder) -> None:
        self.variant = variant
        self.transfers = transfers
        self.copies = Copies(transfers)
        self.owners = shared_rows(func)
        self.embeddings = embeddings(func)
        bits = variant.array.input_bits
        neutral = {
            operation: interiors(func, partial(is_neutral, operation, bits=bits))
            for operation in (AluOp.ADD, AluOp.MAX)
        }
        windows = window_interiors(self.embeddings, neutral)
        self.builder = OperationBuilder(variant, interiors(func), windows)
        self.operations = Repeats(self.builder)
        self.name = func.name
        self.instructions: list[SegmentInstruction] = []
        self.forms: dict[int, tuple[BlockRealize, BlockForm]] = {}
        # By the `id` of parts of the function, which outlives the emitter.
        self.nests: dict[int, PureNest | None] = {}
        self.windows: dict[int, tuple[tuple[Form, ...], LiveBuffer]] = {}

    def visit(self, stmt: Stmt, threads: list[Thread]) -> None:
        """Emit a statement for each of `threads`, interleaved as finely as nests allow."""
        nest = self.nest(stmt)
        if nest is not None:
            for thread in threads:
                self.emit(*nest, thread)
            return
        match stmt:
            case Seq(body):
                for part in body:
                    self.visit(part, threads)
            case For(var, extent, body, "virtual_thread"):
                self.visit(body, [new for thread in threads for new in thread.split(var, extent)])
            case For(var, extent, body):
                for value in range(extent):
                    self.visit(body, [thread.at(var, value) for thread in threads])
            case Allocate(allocations, body):
                # Buffers whose rows are shared come before those that share them.
                for item in sorted(allocations, key=lambda item: self.depth(item.buffer)):
                    for thread in threads:
                        self.allocate(item, thread)
                self.visit(body, threads)
                for item in allocations:
                    for thread in threads:
                        del thread.live[item.buffer]
            case _:
                raise AssertionError(f"no code for {stmt!r}")

    def nest(self, stmt: Stmt) -> PureNest | None:
        """The nest that `stmt` is, if it is one without virtual threads."""
        if id(stmt) not in self.nests:
            nest = pure_nest(stmt)
            if nest is not None and any(loop.kind == "virtual_thread" for loop in nest[0]):
                nest = None
            self.nests[id(stmt)] = nest
        return self.nests[id(stmt)]

    def emit(self, loops: tuple[For, ...], realize: BlockRealize, thread: Thread) -> None:
        intrin = realize.block.annotations.get("intrin")
        if intrin is None:
            raise ScheduleError(
                f"every block must be tensorized for the accelerator; {realize.block.name!r} is not"
            )
        if intrin in COPIES:
            self.emit_copy(loops, realize, thread)
            return
        form = self.prepared(realize, lambda: block_form(loops, realize))
        self.append(self.operations.build(form, thread.env, thread.live))

    def emit_copy(self, loops: tuple[For, ...], realize: BlockRealize, thread: Thread) -> None:
        """Emit a box for each iteration of the loops outside the copy's block."""
        if loops:
            for value in range(loops[0].extent):
                self.emit_copy(loops[1:], realize, thread.at(loops[0].var, value))
            return
        form = self.prepared(realize, lambda: leaf_form((), realize))
        self.append(self.copies.build(form, thread.env, thread.live))

    def append(self, instructions: Iterable[SegmentInstruction]) -> None:
        """Add instructions; raise if the layer exceeds its limit."""
        self.instructions += instructions
        if len(self.instructions) > MAX_LAYER_INSTRUCTIONS:
            raise ScheduleError(
                f"a layer must take at most {MAX_LAYER_INSTRUCTIONS} instructions, and "
                f"{self.name!r} takes more; use smaller maps or a larger variant"
            )

    def prepared(self, realize: BlockRealize, make: Callable[[], BlockForm]) -> BlockForm:
        """The block's form, built once. The block is kept alive so that its `id` stays unique."""
        if id(realize) not in self.forms:
            self.forms[id(realize)] = (realize, make())
        return self.forms[id(realize)][1]

    def depth(self, buffer: Buffer) -> int:
        """How many buffers there are from `buffer` to the one whose rows it shares."""
        if buffer in self.embeddings:
            return 1 + self.depth(self.embeddings[buffer].owner)
        return int(buffer in self.owners)

    def allocate(self, item: Allocation, thread: Thread) -> None:
        held = self.window(item, thread)
        buffer = item.buffer
        owner = self.owners.get(buffer)
        if buffer in self.embeddings:
            held = self.embed(item, held, thread)
        elif owner is not None and owner in thread.live:
            held = held._replace(instance=thread.live[owner].instance)
        thread.live[buffer] = held

    def window(self, item: Allocation, thread: Thread) -> LiveBuffer:
        """The window of an allocation in an instance of its own."""
        known = self.windows.get(id(item))
        if known is None:
            known = self.windows[id(item)] = self.first_window(item, thread)
        forms, held = known
        origin = tuple([form.value(thread.env) for form in forms])
        if held.vectors:
            # How many rows channel vectors take depends on where they begin.
            held = live_buffer(self.variant, item.buffer, origin, item.shape, item.annotations)
        copies = int(item.annotations.get("double_buffer", 1))
        instance = Instance(
            held.instance.name, held.instance.memory, held.instance.rows, thread.number, copies
        )
        return LiveBuffer(
            instance,
            origin,
            item.shape,
            held.vectors,
            held.start,
            tuple(item.window),
            held.pitches,
        )

    def first_window(self, item: Allocation, thread: Thread) -> tuple[tuple[Form, ...], LiveBuffer]:
        """The forms of the window's origin, and the window now."""
        buffer = item.buffer
        if buffer.scope not in MEMORIES:
            raise ScheduleError(
                f"every buffer that a function allocates must be in a scratchpad, one of "
                f"{', '.join(MEMORIES)}; {buffer.name!r} is in {buffer.scope!r}"
            )
        forms = tuple(form_of(part.min) for part in item.window)
        origin = tuple(form.value(thread.env) for form in forms)
        return forms, live_buffer(self.variant, buffer, origin, item.shape, item.annotations)

    def embed(self, item: Allocation, held: LiveBuffer, thread: Thread) -> LiveBuffer:
        """The rows of a reduction over sliding windows, among those of its operand."""
        embedding = self.embeddings[item.buffer]
        sliding = embedding.sliding
        offsets = list(sliding.offsets)
        if sliding.dim is not None:
            offsets[sliding.dim] += sliding.windows(embedding.block, item.shape[sliding.dim]).place
        return embedded(held, thread.live[embedding.owner], sliding.strides, offsets)
