"""Readable, stable text of expressions, statements and functions.

The text is complete (regions are left out where they just repeat the one store of a block): two
functions with equal text have equal meaning and equal annotations. It is the language of the
golden tests and of the before/after pairs in the documentation of primitives.
"""

from collections.abc import Iterable, Mapping

from daedal.compiler.tir.expr import (
    And,
    Axis,
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
from daedal.compiler.tir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    For,
    If,
    PrimFunc,
    Range,
    Region,
    Seq,
    Stmt,
    Value,
)

__all__ = ["expr_text", "func_text", "region_text", "stmt_text"]

_LEVEL = {
    "|": 1, "&": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4,
    "<<": 5, ">>": 5, "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7,
}  # fmt: skip


class _Names:
    """Unique names per scope: a variable that shadows another of the same name gets a suffix."""

    def __init__(self) -> None:
        self.names: dict[object, str] = {}
        self.used: set[str] = set()

    def bind(self, item: Var | Buffer) -> str:
        name, count = item.name, 1
        while name in self.used:
            name, count = f"{item.name}_{count}_", count + 1
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
        return self.names.get(item, item.name)


def expr_text(expr: Expr) -> str:
    """One expression."""
    return _expr(expr, _Names(), 0)


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
    lines = [f"func {func.name}({', '.join(params)}):", *_indent(_stmt(func.body, names))]
    return "\n".join(lines) + "\n"


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _type(buffer: Buffer) -> str:
    scope = "" if buffer.scope == "global" else f" in {buffer.scope}"
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]{scope}"


def _notes(annotations: Mapping[str, Value]) -> str:
    if not annotations:
        return ""
    return " {" + ", ".join(f"{key}: {annotations[key]}" for key in sorted(annotations)) + "}"


def _stmt(stmt: Stmt, names: _Names) -> list[str]:
    match stmt:
        case Seq(body):
            return [line for part in body for line in _stmt(part, names)]
        case BufferStore(buffer, indices, value):
            inside = ", ".join(_expr(index, names, 0) for index in indices)
            return [f"{names.of(buffer)}[{inside}] = {_expr(value, names, 0)}"]
        case For():
            return _loops(stmt, names)
        case If(condition, body):
            return [f"if {_expr(condition, names, 0)}:", *_indent(_stmt(body, names))]
        case Allocate(allocations, body):
            lines = []
            for item in allocations:
                window = ", ".join(_range(part, names) for part in item.window)
                whole = all(
                    part.min == IntImm(0) and part.extent == extent
                    for part, extent in zip(item.window, item.buffer.shape, strict=True)
                )
                shown = "" if whole else f" window [{window}]"
                name = names.bind(item.buffer)
                lines.append(f"alloc {name}: {_type(item.buffer)}{shown}{_notes(item.annotations)}")
            lines += _stmt(body, names)
            names.release(item.buffer for item in allocations)
            return lines
        case BlockRealize():
            return _realize(stmt, names)
        case Block():
            return _realize(BlockRealize(stmt.iter_vars, stmt), names)
    raise AssertionError(f"not a statement: {stmt!r}")


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
    values = [_expr(value, names, 0) for value in stmt.values]
    where = "" if stmt.predicate is None else f" where {_expr(stmt.predicate, names, 0)}"
    names = names.within_block()
    bound = []
    for axis, value in zip(block.iter_vars, values, strict=True):
        mark = "+" if axis.kind == "reduce" else ""
        bound.append(f"{mark}{names.bind(axis)}:{axis.extent} = {value}")
    lines = [f"block {block.name}({', '.join(bound)}){where}{_notes(block.annotations)}:"]
    inner = (
        []
        if isinstance(block.body, BufferStore)
        else [
            f"reads {', '.join(_region(region, names) for region in block.reads) or 'nothing'}",
            f"writes {', '.join(_region(region, names) for region in block.writes)}",
        ]
    )
    if block.init is not None:
        inner += ["init:", *_indent(_stmt(block.init, names))]
    inner += _stmt(block.body, names)
    return lines + _indent(inner)


def _range(part: Range, names: _Names) -> str:
    return f"{_expr(part.min, names, 0)}:+{part.extent}"


def _region(region: Region, names: _Names) -> str:
    inside = ", ".join(
        _expr(part.min, names, 0) if part.extent == 1 else _range(part, names)
        for part in region.ranges
    )
    pad = "" if region.pad_value is None else f".padded({region.pad_value})"
    return f"{names.of(region.buffer)}{pad}[{inside}]"


def _expr(expr: Expr, names: _Names, level: int) -> str:
    def infix(op: str, a: Expr, b: Expr) -> str:
        own = _LEVEL[op]
        text = f"{_expr(a, names, own)} {op} {_expr(b, names, own + 1)}"
        return f"({text})" if own < level else text

    def called(name: str, *args: Expr) -> str:
        return f"{name}({', '.join(_expr(arg, names, 0) for arg in args)})"

    match expr:
        case Var():
            return names.of(expr)
        case IntImm(value, dtype):
            return str(bool(value)) if dtype == "bool" else str(value)
        case FloatImm(value):
            return repr(value)
        case Binary("+", a, IntImm(value, dtype)) if value < 0:
            return infix("-", a, IntImm(-value, dtype))
        case Binary("min" | "max", a, b):
            return called(expr.op, a, b)
        case Binary(op, a, b) | Compare(op, a, b):
            return infix(op, a, b)
        case And(a, b):
            return infix("&", a, b)
        case Or(a, b):
            return infix("|", a, b)
        case Not(a):
            return f"~{_expr(a, names, 9)}"
        case Select(condition, true, false):
            return called("select", condition, true, false)
        case Cast(dtype, value):
            return called(dtype, value)
        case Load(buffer, indices, pad_value):
            inside = ", ".join(_expr(index, names, 0) for index in indices)
            pad = "" if pad_value is None else f".padded({pad_value})"
            return f"{names.of(buffer)}{pad}[{inside}]"
        case Call(name, args, _):
            return called(name, *args)
        case Reduce(op, value, axes):
            over = ", ".join(f"{axis.name} in {axis.extent}" for axis in axes)
            return f"{op}({_expr(value, names, 0)}, over {over})"
    raise AssertionError(f"not an expression: {expr!r}")


def axis_text(axes: Iterable[Axis]) -> str:
    """Axes with their extents, as ``i:4, j:8``."""
    return ", ".join(f"{axis.name}:{axis.extent}" for axis in axes)
