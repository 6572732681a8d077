"""Readable, stable text of expressions, statements and functions.

The text is complete: `daedal.compiler.tir.parser` reads an equal function back. It leaves out what
follows from the rest: regions that just repeat the one store of a block, and dtypes of constants
(`daedal.compiler.tir.notation`). It is the language of the golden tests and of the before/after
pairs in the documentation of primitives.
"""

from collections.abc import Iterable, Mapping

from daedal.compiler.tir.dtype import INDEX_DTYPE
from daedal.compiler.tir.expr import (
    And,
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Not,
    Or,
    Reduce,
    Select,
    Var,
)
from daedal.compiler.tir.notation import (
    DEFAULT_FLOAT,
    LEVEL,
    operand_dtypes,
    quoted,
    told_dtype,
)
from daedal.compiler.tir.region import block_regions, whole_window
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
    Range,
    Region,
    Seq,
    Stmt,
    Value,
    WaitForBoxes,
    WaitForCopies,
    WaitForProducts,
)

__all__ = ["expr_text", "func_text", "region_text", "stmt_text"]


class _Names:
    """Unique names per scope: a variable that shadows another of the same name gets a suffix."""

    def __init__(self) -> None:
        self.names: dict[object, str] = {}
        self.used: set[str] = set()

    def bind(self, item: Var | Buffer) -> str:
        own = quoted(item.name)
        name, count = own, 1
        while name in self.used:
            name, count = f"{own}_{count}_", count + 1
        self.names[item] = name
        self.used.add(name)
        return name

    def release(self, items: Iterable[Var | Buffer]) -> None:
        for item in items:
            self.used.discard(self.names.pop(item))

    def within_block(self) -> "_Names":
        """Names inside a block: its body speaks of buffers and its own variables only."""
        inner = _Names()
        inner.names = {item: name for item, name in self.names.items() if isinstance(item, Buffer)}
        inner.used = set(inner.names.values())
        return inner

    def of(self, item: Var | Buffer) -> str:
        return self.names.get(item) or quoted(item.name)


def expr_text(expr: Expr) -> str:
    """One expression."""
    return _expr(expr, _Names(), expr.dtype)


def region_text(region: Region) -> str:
    """One region, as ``x[0:+1, oh*4:+6]``."""
    return _region(region, _Names())


def stmt_text(stmt: Stmt) -> str:
    """One statement, ending in a line break."""
    return "\n".join(_stmt(stmt, _Names())) + "\n"


def func_text(func: PrimFunc) -> str:
    """A whole function, ending in a line break."""
    names = _Names()
    params = []
    for buffer in func.params:
        arrow = "out " if buffer in func.outputs else ""
        params.append(f"{arrow}{names.bind(buffer)}: {_type(buffer)}")
    lines = [f"func {quoted(func.name)}({', '.join(params)}):", *_indent(_stmt(func.body, names))]
    return "\n".join(lines) + "\n"


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _type(buffer: Buffer) -> str:
    scope = "" if buffer.scope == "global" else f" in {quoted(buffer.scope)}"
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]{scope}"


def _notes(annotations: Mapping[str, Value]) -> str:
    if not annotations:
        return ""
    pairs = (f"{quoted(key)}: {_note(annotations[key])}" for key in sorted(annotations))
    return " {" + ", ".join(pairs) + "}"


def _note(value: Value) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


def _stmt(stmt: Stmt, names: _Names, last: bool = True) -> list[str]:
    """The lines of a statement; `last` says whether it ends those of the same indentation."""
    match stmt:
        case Seq(body):
            *first, end = body
            lines = [line for part in first for line in _stmt(part, names, last=False)]
            return [*lines, *_stmt(end, names, last)]
        case BufferStore(buffer, indices, value):
            inside = ", ".join(_index(index, names) for index in indices)
            return [f"{names.of(buffer)}[{inside}] = {_expr(value, names, buffer.dtype)}"]
        case For():
            return _loops(stmt, names)
        case Prefetch(buffer, indices):
            inside = ", ".join(_index(index, names) for index in indices)
            return [f"prefetch {names.of(buffer)}[{inside}]"]
        case Barrier():
            return ["barrier"]
        case CommitCopies():
            return ["commit"]
        case WaitForCopies(newest, landed, fenced):
            regions = ", ".join(_region(part, names) for part in landed)
            return [f"wait {newest} for {regions}{' fenced' if fenced else ''}"]
        case BeginArrivals(arrivals):
            return [f"arrivals {names.of(arrivals)}"]
        case ExpectBoxes(arrivals, stage, size):
            return [f"expect {size} at {names.of(arrivals)}[{_index(stage, names)}]"]
        case WaitForBoxes(arrivals, stage, turn, landed):
            regions = ", ".join(_region(part, names) for part in landed)
            place = f"{names.of(arrivals)}[{_index(stage, names)}, {_index(turn, names)}]"
            return [f"wait boxes {place} for {regions}"]
        case FenceSums(sums):
            return [f"fence {names.of(sums)}"]
        case CommitProducts():
            return ["commit products"]
        case WaitForProducts(newest, sums):
            of = "" if sums is None else f" for {names.of(sums)}"
            return [f"wait products {newest}{of}"]
        case If(condition, body):
            return [f"if {_expr(condition, names, 'bool')}:", *_indent(_stmt(body, names))]
        case Allocate():
            return _allocate(stmt, names, last)
        case BlockRealize():
            return _realize(stmt, names)
        case Block():
            return _realize(BlockRealize(stmt.iter_vars, stmt), names)
    raise AssertionError(f"not a statement: {stmt!r}")


def _allocate(stmt: Allocate, names: _Names, last: bool) -> list[str]:
    """Allocations and their body, which is indented only where more than it would follow."""
    lines = [_allocation(item, names) for item in stmt.allocations]
    if last and not isinstance(stmt.body, Allocate):
        lines += _stmt(stmt.body, names)
    else:
        lines[-1] += ":"
        lines += _indent(_stmt(stmt.body, names))
    names.release(item.buffer for item in stmt.allocations)
    return lines


def _allocation(item: Allocation, names: _Names) -> str:
    window = ", ".join(_range(part, names) for part in item.window)
    shown = "" if item.window == whole_window(item.buffer) else f" window [{window}]"
    name = names.bind(item.buffer)
    return f"alloc {name}: {_type(item.buffer)}{shown}{_notes(item.annotations)}"


def _loops(stmt: For, names: _Names) -> list[str]:
    """Loops directly inside one another share a line."""
    heads: list[str] = []
    bound: list[Var | Buffer] = []
    body: Stmt = stmt
    while isinstance(body, For):
        kind = "" if body.kind == "serial" else f" {body.kind}"
        heads.append(f"{names.bind(body.var)} in {body.extent}{kind}{_notes(body.annotations)}")
        bound.append(body.var)
        body = body.body
    lines = [f"for {', '.join(heads)}:", *_indent(_stmt(body, names))]
    names.release(bound)
    return lines


def _realize(stmt: BlockRealize, names: _Names) -> list[str]:
    block = stmt.block
    values = [_index(value, names) for value in stmt.values]
    where = "" if stmt.predicate is None else f" where {_expr(stmt.predicate, names, 'bool')}"
    names = names.within_block()
    bound = []
    for axis, value in zip(block.iter_vars, values, strict=True):
        mark = "+" if axis.kind == "reduce" else ""
        bound.append(f"{mark}{names.bind(axis)}:{axis.extent} = {value}")
    head = f"block {quoted(block.name)}({', '.join(bound)}){where}{_notes(block.annotations)}:"
    inner = [] if _repeats_its_store(block) else _regions(block, names)
    if block.init is not None:
        inner += ["init:", *_indent(_stmt(block.init, names))]
    return [head, *_indent(inner + _stmt(block.body, names))]


def _repeats_its_store(block: Block) -> bool:
    """Whether the regions of a block say no more than its one store."""
    if not isinstance(block.body, BufferStore):
        return False
    regions = block_regions(block.iter_vars, block.body, block.init)
    return regions == (block.reads, block.writes)


def _regions(block: Block, names: _Names) -> list[str]:
    return [
        f"reads {', '.join(_region(region, names) for region in block.reads) or 'nothing'}",
        f"writes {', '.join(_region(region, names) for region in block.writes) or 'nothing'}",
    ]


def _range(part: Range, names: _Names) -> str:
    return f"{_index(part.min, names)}:+{part.extent}"


def _region(region: Region, names: _Names) -> str:
    inside = ", ".join(
        _index(part.min, names) if part.extent == 1 else _range(part, names)
        for part in region.ranges
    )
    return f"{names.of(region.buffer)}{_padded(region.pad_value)}[{inside}]"


def _padded(value: int | float | None) -> str:
    return "" if value is None else f".padded({value})"


def _index(expr: Expr, names: _Names) -> str:
    return _expr(expr, names, INDEX_DTYPE)


def _expr(expr: Expr, names: _Names, wanted: str | None, level: int = 0) -> str:
    """An expression where its place asks for the dtype `wanted` and for operators above `level`."""

    def operand(part: Expr, dtype: str | None, above: int = 0) -> str:
        return _expr(part, names, dtype, above)

    def infix(op: str, a: Expr, b: Expr) -> str:
        own = LEVEL[op]
        left, right = operand_dtypes(expr, wanted)
        text = f"{operand(a, left, own)} {op} {operand(b, right, own + 1)}"
        return f"({text})" if own < level else text

    def called(name: str, *args: Expr) -> str:
        pairs = zip(args, operand_dtypes(expr, wanted), strict=True)
        return f"{name}({', '.join(operand(arg, dtype) for arg, dtype in pairs)})"

    match expr:
        case Var():
            return names.of(expr)
        case IntImm(value, dtype):
            return str(bool(value)) if dtype == "bool" else _with_dtype(str(value), expr, wanted)
        case FloatImm(value):
            return _with_dtype(repr(value), expr, wanted)
        case Binary("min" | "max", a, b):
            return called(expr.op, a, b)
        case Binary(op, a, b) | Compare(op, a, b):
            return infix(op, a, b)
        case And(a, b):
            return infix("&", a, b)
        case Or(a, b):
            return infix("|", a, b)
        case Not(a):
            return f"~{operand(a, 'bool', 9)}"
        case Select(condition, true, false):
            return called("select", condition, true, false)
        case Cast(dtype, value):
            return called(dtype, value)
        case Load(buffer, indices, pad_value):
            inside = ", ".join(_index(index, names) for index in indices)
            return f"{names.of(buffer)}{_padded(pad_value)}[{inside}]"
        case Call(name, args, _):
            text = called(name, *args)
            return text if told_dtype(expr) else _with_dtype(text, expr, wanted)
        case Reduce(op, value, axes):
            over = ", ".join(f"{axis.name} in {axis.extent}" for axis in axes)
            return f"{op}({operand(value, wanted)}, over {over})"
    raise AssertionError(f"not an expression: {expr!r}")


def _with_dtype(text: str, expr: Expr, wanted: str | None) -> str:
    """The text of a value whose dtype follows from its place or stands behind it."""
    default = DEFAULT_FLOAT if isinstance(expr, FloatImm) else INDEX_DTYPE
    return text if expr.dtype == (wanted or default) else f"{text}:{expr.dtype}"
