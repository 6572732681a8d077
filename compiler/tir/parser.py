"""`parse_func`: a function of the loop IR from its text, as `printer` writes it.

So tests of schedule primitives and of lowerings can be written in text. The text may also have
comments (``# ...``), empty lines and any indentation, and may leave out the regions of a block,
which are those that its body touches. Only the form is checked here; `verify` has the rules.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from daedal.compiler.tir.errors import ExpressionError, ParseError
from daedal.compiler.tir.expr import Axis, Buffer, Expr, Var
from daedal.compiler.tir.parse_expr import (
    Scope,
    parse_element,
    parse_expr,
    parse_index,
    parse_ranges,
    parse_region,
)
from daedal.compiler.tir.parse_types import parse_buffer, parse_kind, parse_notes
from daedal.compiler.tir.region import make_block, whole_window
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    Barrier,
    BeginArrivals,
    Block,
    BlockRealize,
    BufferStore,
    CommitCopies,
    CommitProducts,
    ExpectBoxes,
    FenceSums,
    For,
    If,
    Prefetch,
    PrimFunc,
    Region,
    Seq,
    Stmt,
    Value,
    WaitForBoxes,
    WaitForCopies,
    WaitForProducts,
)
from daedal.compiler.tir.tokens import Line, split_lines

__all__ = ["parse_func"]

_STATEMENTS = (
    "a store, for, if, alloc, block, prefetch, barrier, commit, fence, arrivals, expect or wait"
)


def parse_func(text: str) -> PrimFunc:
    """The function that `text` describes; ``func_text`` of it is `text` in its normal form.

    Raises
    ------
    ParseError
        For a line that says nothing of the loop IR, a name that is not known there, operands of
        different dtypes, and an indentation that opens or closes nothing.
    """
    parser = _Parser(split_lines(text))
    try:
        return parser.function()
    except ExpressionError as error:
        parser.line.fail(str(error))
    except RecursionError:
        parser.line.fail("it is nested too deeply")


class _Parser:
    """Recursive descent over lines; `line` is the one that was read last."""

    def __init__(self, lines: list[Line]) -> None:
        if not lines:
            raise ParseError(
                "the text of a function must begin with 'func NAME(...):', not be empty"
            )
        self._lines = lines
        self._next = 0
        self.line = lines[0]

    def function(self) -> PrimFunc:
        """The only function of the text."""
        head = self.line
        self._next = 1
        if not head.take("func"):
            head.fail("the text of a function must begin with 'func NAME(...):'")
        name = head.name("the name of a function")
        scope: dict[str, Var | Buffer] = {}
        outputs = [self._parameter(head, scope) for _ in _items(head, "the parameters")]
        _end_head(head, "the parameters of a function")
        num_outputs = sum(outputs)
        if outputs != sorted(outputs):
            head.fail("parameters marked out come last; move them behind the others")
        body = self._suite(head, scope)
        if self._next < len(self._lines):
            self._take().fail("nothing may follow a function; parse each one by itself")
        params = tuple(item for item in scope.values() if isinstance(item, Buffer))
        return PrimFunc(name, params, body, num_outputs)

    def _parameter(self, line: Line, scope: dict[str, Var | Buffer]) -> bool:
        """Add a parameter to the scope; returns whether it is an output."""
        is_output = line.peek(1) != ":" and line.take("out")
        key = line.key("a parameter")
        line.expect(":", "a parameter")
        scope.update(_bound(line, scope, key, parse_buffer(line, key)))
        return is_output

    # -- lines ------------------------------------------------------------------------------------

    def _take(self) -> Line:
        self.line = self._lines[self._next]
        self._next += 1
        return self.line

    def _line_at(self, indent: int) -> Line | None:
        """The next line of an indentation, or None where those of it end; it is not taken."""
        if self._next == len(self._lines) or self._lines[self._next].indent < indent:
            return None
        line = self._lines[self._next]
        if line.indent > indent:
            line.fail(f"it is indented by {line.indent} spaces where {indent} are expected")
        return line

    def _inner_indent(self, head: Line) -> int:
        """The indentation of the lines below `head`."""
        if self._next == len(self._lines) or self._lines[self._next].indent <= head.indent:
            head.fail("a line that ends in ':' needs indented lines below it")
        return self._lines[self._next].indent

    def _suite(self, head: Line, scope: Scope) -> Stmt:
        """The statement that the indented lines below `head` are."""
        return self._statements(self._inner_indent(head), scope, head)

    def _statements(self, indent: int, scope: Scope, head: Line) -> Stmt:
        """The statement that the next lines of an indentation are."""
        parts: list[Stmt] = []
        while self._line_at(indent):
            parts.append(self._statement(self._take(), scope))
        if not parts:
            head.fail(f"a statement must follow: {_STATEMENTS}")
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    # -- statements -------------------------------------------------------------------------------

    def _statement(self, line: Line, scope: Scope) -> Stmt:
        if line.at_name and line.peek(1) in ("[", "."):
            return _store(line, scope)
        if line.take("for"):
            return self._loops(line, scope)
        if line.take("block"):
            return self._block(line, scope)
        if line.take("alloc"):
            return self._allocate(line, scope)
        if line.take("prefetch"):
            buffer, indices = parse_element(line, scope)
            line.finish("'prefetch'")
            return Prefetch(buffer, indices)
        if line.take("barrier"):
            line.finish("'barrier'")
            return Barrier()
        if line.take("commit"):
            of_products = line.take("products")
            line.finish("'commit'")
            return CommitProducts() if of_products else CommitCopies()
        if line.take("arrivals"):
            arrivals = _buffer(line, scope)
            line.finish("arrivals")
            return BeginArrivals(arrivals)
        if line.take("expect"):
            return _expect(line, scope)
        if line.take("fence"):
            sums = _buffer(line, scope)
            line.finish("a fence")
            return FenceSums(sums)
        if line.take("wait"):
            wait = _wait(line, scope)
            line.finish("a wait")
            return wait
        if line.take("if"):
            condition = parse_expr(line, scope, "bool", "a condition")
            _end_head(line, "a condition")
            return If(condition, self._suite(line, scope))
        line.fail(f"a statement must be {_STATEMENTS}")

    def _loops(self, line: Line, scope: Scope) -> Stmt:
        """``for i in 4, j in 8 parallel:`` and its body."""
        loops: list[tuple[Var, int, str, Mapping[str, Value]]] = []
        while not loops or line.take(","):
            key = line.key("a loop variable")
            line.expect("in", f"loop {line.plain(key)!r}")
            var, extent = Var(line.plain(key)), line.extent("the extent of a loop")
            loops.append((var, extent, parse_kind(line), parse_notes(line)))
            scope = _bound(line, scope, key, var)
        _end_head(line, "a loop")
        stmt = self._suite(line, scope)
        for var, extent, kind, notes in reversed(loops):
            stmt = For(var, extent, stmt, kind, notes)
        return stmt

    def _allocate(self, line: Line, scope: Scope) -> Stmt:
        """Allocations that follow each other; their body is indented, or the rest of the lines."""
        items = []
        while True:
            scope, item = _allocation(line, scope)
            items.append(item)
            if line.take(":"):
                line.finish("':'")
                return Allocate(tuple(items), self._suite(line, scope))
            line.finish("an allocation")
            after = self._line_at(line.indent)
            if after is None or after.peek() != "alloc" or after.peek(1) == "[":
                return Allocate(tuple(items), self._statements(line.indent, scope, line))
            line = self._take()
            line.take("alloc")

    def _block(self, line: Line, scope: Scope) -> Stmt:
        """A block with its bindings; inside, only buffers and its own variables are known."""
        name = line.name("the name of a block")
        inner: Scope = {key: item for key, item in scope.items() if isinstance(item, Buffer)}
        axes: list[Axis] = []
        values: list[Expr] = []
        for _ in _items(line, "the variables of a block"):
            kind = "reduce" if line.take("+") else "spatial"
            key = line.key("a variable of a block")
            line.expect(":", f"variable {line.plain(key)!r}")
            axis = Axis(line.plain(key), extent=line.extent("the extent of a variable"), kind=kind)
            line.expect("=", f"variable {axis.name!r}")
            values.append(parse_index(line, scope, f"the value of {axis.name!r}"))
            axes.append(axis)
            inner = _bound(line, inner, key, axis)
        predicate = None
        if line.take("where"):
            predicate = parse_expr(line, scope, "bool", "a predicate")
        notes = parse_notes(line)
        _end_head(line, "a block")
        block = self._block_body(line, inner, name, tuple(axes))
        return BlockRealize(tuple(values), replace(block, annotations=notes), predicate)

    def _block_body(self, head: Line, scope: Scope, name: str, axes: tuple[Axis, ...]) -> Block:
        indent = self._inner_indent(head)
        reads = self._regions(indent, scope, "reads")
        writes = self._regions(indent, scope, "writes")
        if (reads is None) != (writes is None):
            self.line.fail("a block has both reads and writes, in this order, or none")
        init = None
        line = self._line_at(indent)
        if line is not None and line.peek() == "init" and line.peek(1) == ":":
            self._take().take("init")
            _end_head(line, "init")
            init = self._suite(line, scope)
        body = self._statements(indent, scope, head)
        if reads is None or writes is None:
            return make_block(name, axes, body, init)
        return Block(name, axes, reads, writes, body, init)

    def _regions(self, indent: int, scope: Scope, word: str) -> tuple[Region, ...] | None:
        """The regions of a line that begins with `word`, if the next one does."""
        line = self._line_at(indent)
        if line is None or line.peek() != word or line.peek(1) == "[":
            return None
        self._take().take(word)
        regions: list[Region] = []
        if line.peek(1) or not line.take("nothing"):
            while not regions or line.take(","):
                regions.append(parse_region(line, scope))
        line.finish(word)
        return tuple(regions)


def _store(line: Line, scope: Scope) -> Stmt:
    buffer, indices = parse_element(line, scope)
    line.expect("=", f"a store to {buffer.name!r}")
    value = parse_expr(line, scope, buffer.dtype, f"what {buffer.name!r} holds")
    line.finish("a store")
    return BufferStore(buffer, indices, value)


def _buffer(line: Line, scope: Scope) -> Buffer:
    key = line.key("a buffer")
    found = scope.get(key)
    if not isinstance(found, Buffer):
        line.fail(f"sums must be in a buffer that is allocated above, and {key!r} is none")
    return found


def _expect(line: Line, scope: Scope) -> Stmt:
    size = line.extent("the number of bytes")
    line.expect("at", "what is expected")
    arrivals, indices = parse_element(line, scope)
    line.finish("what is expected")
    if len(indices) != 1:
        line.fail("arrivals must have one dimension")
    return ExpectBoxes(arrivals, indices[0], size)


def _wait(line: Line, scope: Scope) -> Stmt:
    if line.take("boxes"):
        arrivals = _buffer(line, scope)
        line.expect("[", "a wait for boxes")
        stage = parse_index(line, scope, "the stage")
        line.expect(",", "a wait for boxes")
        turn = parse_index(line, scope, "how often it has been waited for")
        line.expect("]", "a wait for boxes")
        line.expect("for", "a wait for boxes")
        return WaitForBoxes(arrivals, stage, turn, _landed(line, scope))
    if line.take("products"):
        newest = line.integer("the number of groups that need not be done")
        sums = _buffer(line, scope) if line.take("for") else None
        return WaitForProducts(newest, sums)
    newest = line.integer("the number of groups that need not have landed")
    line.expect("for", "a wait")
    landed = _landed(line, scope)
    return WaitForCopies(newest, landed, line.take("fenced"))


def _landed(line: Line, scope: Scope) -> tuple[Region, ...]:
    landed: list[Region] = []
    while not landed or line.take(","):
        landed.append(parse_region(line, scope))
    return tuple(landed)


def _allocation(line: Line, scope: Scope) -> tuple[Scope, Allocation]:
    key = line.key("a buffer")
    line.expect(":", "a buffer")
    buffer = parse_buffer(line, key)
    window = whole_window(buffer)
    if line.take("window"):
        line.expect("[", "a window")
        window = parse_ranges(line, scope, buffer)
    return _bound(line, scope, key, buffer), Allocation(buffer, window, parse_notes(line))


def _bound(line: Line, scope: Scope, key: str, item: Var | Buffer) -> Scope:
    """`scope` with one more name."""
    if key in scope:
        line.fail(f"names differ where both are known, not two {key!r}; write {key}_1_ for it")
    return {**scope, key: item}


def _items(line: Line, what: str) -> Iterator[None]:
    """One pass for every item of a list in parentheses; the loop around reads it."""
    line.expect("(", what)
    if not line.take(")"):
        yield
        while line.take(","):
            yield
        line.expect(")", what)


def _end_head(line: Line, what: str) -> None:
    line.expect(":", what)
    line.finish("':'")
