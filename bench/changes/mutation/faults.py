"""Single faults of Python sources: where they can be planted, and how.

Input: the text of a module. Output: its `Fault`s, each a span of the source and what replaces it.
An operator looks at one node of the syntax tree; `OPERATORS` names them all.
"""

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["OPERATORS", "Fault", "control_of", "faults_of", "planted"]

Edit = tuple[int, int, str]
"""Bytes from, bytes to, and the text that replaces them."""


@dataclass(frozen=True)
class Fault:
    """One fault of one file.

    Attributes
    ----------
    path : the file, relative to the repository.
    line, column : where the changed text begins; lines count from 1, columns from 0.
    operator : the name in `OPERATORS`.
    scope : qualified name of the innermost function or class around it; empty at module level.
    start, stop, after : bytes of the file that are replaced, and by what.
    before : the text that was there.
    runs : whether its code runs as a Python function, so that calls of `scope` say who reaches it;
        what runs at import, functions that are called there, and kernels, which are compiled, do
        not.
    key : stands for file, scope, operator, line text and place in the line, without the line's
        number: edits elsewhere in the file leave it as it is.
    """

    path: str
    line: int
    column: int
    operator: str
    scope: str
    start: int
    stop: int
    before: str
    after: str
    runs: bool
    key: str

    @property
    def title(self) -> str:
        """Where and what, in one line."""
        before, after = (re.sub(r"\s+", " ", text) for text in (self.before, self.after))
        return f"{self.path}:{self.line}:{self.column} `{_cut(before)}` -> `{_cut(after)}`"


def faults_of(path: str, source: str) -> list[Fault]:
    """Every fault that the operators can plant in `source`, in the order of the text."""
    tree = ast.parse(source)
    visitor = _Finder(source, frozenset(_called_at_import(tree)))
    visitor.visit(tree)
    data, lines = source.encode(), source.splitlines()
    found, seen = list[Fault](), Counter[str]()
    edits = sorted(visitor.edits, key=lambda edit: (edit[-1], edit[0]))
    for operator, scope, runs, (start, stop, after) in edits:
        line = data.count(b"\n", 0, start) + 1
        column = start - (data.rfind(b"\n", 0, start) + 1)
        place = f"{path}\n{scope}\n{operator}\n{lines[line - 1].strip()}\n{after}"
        seen[place] += 1
        key = hashlib.sha256(f"{place}\n{seen[place]}".encode()).hexdigest()[:12]
        before = data[start:stop].decode()
        found.append(
            Fault(path, line, column, operator, scope, start, stop, before, after, runs, key)
        )
    return found


def control_of(path: str, source: str) -> Fault:
    """What is planted like a fault and is none: no test may notice it."""
    end, line = len(source.encode()), source.count("\n") + 1
    return Fault(path, line, 0, "control", "", end, end, "", "_no_fault = 0\n", False, f"no {path}")


def planted(source: str, fault: Fault) -> str:
    """`source` with the fault. Raises ValueError where the source is not the one it is from."""
    data = source.encode()
    if data[fault.start : fault.stop].decode() != fault.before:
        raise ValueError(f"the text at {fault.title} has changed")
    return (data[: fault.start] + fault.after.encode() + data[fault.stop :]).decode()


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


class _Source:
    """The text of nodes, and spans of bytes for their places."""

    def __init__(self, source: str) -> None:
        self.data = source.encode()
        self._starts = [0]
        for line in self.data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, stop = self.span(node)
        return self.data[start:stop].decode()

    def between(self, left: ast.expr, right: ast.expr, token: str) -> tuple[int, int] | None:
        """The span of `token` between two operands."""
        start, stop = self.span(left)[1], self.span(right)[0]
        gap = re.sub(rb"#[^\n]*", lambda match: b" " * len(match[0]), self.data[start:stop])
        word = rb"\b%s\b" if token[0].isalpha() else rb"%s"
        pattern = re.escape(token).replace(r"\ ", r"\s+").encode()
        match = re.search(word % pattern, gap)
        return (start + match.start(), start + match.end()) if match else None


_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_BINARIES: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "minimum": "maximum",
    "maximum": "minimum",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
}


def _compare(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for index, operator in enumerate(node.ops):
        before, after = _COMPARISONS[type(operator)]
        span = source.between(operands[index], operands[index + 1], before)
        if span:
            yield (*span, after)


def _binary(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if isinstance(node, ast.AugAssign) and type(node.op) in _BINARIES:
        before, after = _BINARIES[type(node.op)]
        # `m.d.comb += ...` adds statements; taking them away is what `remove` does.
        if not source.text(node.target).startswith("m.d."):
            span = _augmented(node, source, before)
            if span:
                yield (*span, f"{after}=")
    if not isinstance(node, ast.BinOp) or type(node.op) not in _BINARIES:
        return
    if any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right)):
        return
    before, after = _BINARIES[type(node.op)]
    span = source.between(node.left, node.right, before)
    if span:
        yield (*span, after)


def _augmented(node: ast.AugAssign, source: _Source, before: str) -> tuple[int, int] | None:
    target = node.target
    return source.between(target, node.value, f"{before}=")


def _boolean(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if not isinstance(node, ast.BoolOp):
        return
    before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        span = source.between(left, right, before)
        if span:
            yield (*span, after)


def _negation(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert, ast.USub)):
        start, _ = source.span(node)
        inner, _ = source.span(node.operand)
        removed = source.data[start:inner].decode()
        if not isinstance(node.op, ast.USub) or not isinstance(node.operand, ast.Constant):
            yield start, inner, re.sub(r"^(not\s+|~|-)", "", removed)


def _constant(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant):
        return
    start, stop = source.span(node)
    if isinstance(node.value, bool):
        yield start, stop, str(not node.value)
    elif isinstance(node.value, int):
        yield start, stop, str(node.value + 1)
        if node.value:
            yield start, stop, str(node.value - 1)


def _condition(node: ast.AST, source: _Source) -> Iterator[Edit]:
    tests = list[ast.expr]()
    if isinstance(node, (ast.If, ast.IfExp)):
        tests.append(node.test)
    if isinstance(node, ast.comprehension):
        tests += node.ifs
    for test in tests:
        for value in ("True", "False"):
            yield (*source.span(test), value)
    # Amaranth's `m.If`, of which `m.Elif` and `m.Else` follow.
    if isinstance(node, ast.With):
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and source.text(call.func) in ("m.If", "m.Elif"):
                for value in ("1", "0"):
                    yield (*source.span(call.args[0]), value)


def _remove(node: ast.AST, source: _Source) -> Iterator[Edit]:
    removable = (ast.Expr, ast.AugAssign, ast.Delete)
    if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call):
        return
    if isinstance(node, removable):
        yield (*source.span(node), "pass")
    if isinstance(node, ast.Assign) and all(isinstance(t, ast.Subscript) for t in node.targets):
        yield (*source.span(node), "pass")
    if isinstance(node, (ast.Break, ast.Continue)):
        yield (*source.span(node), "continue" if isinstance(node, ast.Break) else "break")
    # Of several statements for one domain, one.
    if isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.Tuple)):
        for element in node.value.elts:
            if source.text(node.target).startswith("m.d."):
                yield (*source.span(element), "*()")


def _swap(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node.func, ast.Name) else name
    if name in _CALLS:
        _, stop = source.span(node.func)
        yield stop - len(name), stop, _CALLS[name]
    if name == "Mux" and len(node.args) == 3:
        _, left, right = node.args
        span = source.span(left)[0], source.span(right)[1]
        gap = source.data[source.span(left)[1] : source.span(right)[0]]
        if gap.strip() == b"," and b")" not in source.data[span[1] : source.span(node)[1] - 1]:
            yield (*span, f"{source.text(right)}, {source.text(left)}")


def _slice(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if isinstance(node, ast.Slice):
        for bound, sign in ((node.lower, "+"), (node.upper, "-")):
            if bound is not None and not isinstance(bound, (ast.Constant, ast.UnaryOp)):
                yield (*source.span(bound), f"({source.text(bound)}) {sign} 1")


_OFFSETS = {"range", "bisect_left", "bisect_right", "eq", "arange"}
"""Functions whose arguments are numbers: one more is a fault that no other operator plants."""


def _offset(node: ast.AST, source: _Source) -> Iterator[Edit]:
    if not isinstance(node, ast.Call) or not node.args:
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node.func, ast.Name) else name
    last = node.args[-1]
    if name in _OFFSETS and isinstance(last, (ast.Name, ast.Attribute, ast.Subscript)):
        yield (*source.span(last), f"{source.text(last)} + 1")


OPERATORS: dict[str, Callable[[ast.AST, _Source], Iterator[Edit]]] = {
    "compare": _compare,
    "binary": _binary,
    "boolean": _boolean,
    "negation": _negation,
    "constant": _constant,
    "condition": _condition,
    "remove": _remove,
    "swap": _swap,
    "slice": _slice,
    "offset": _offset,
}
"""What is changed, by the operator's name."""

_NO_KEYWORDS = {
    "encoding", "errors", "exist_ok", "indent", "key_type", "kw_only", "maxlen", "maxsize",
    "missing_ok", "mode", "newline", "parents", "repr", "reset_less", "src_loc_at", "stacklevel",
    "strict",
}  # fmt: skip
"""Keyword arguments that say how, not what: texts of files, limits of caches, our own checks."""

_NO_CALLS = re.compile(r"(print|report|progress|console\.\w+|warnings\.warn|log\.\w+|super\(\).*)$")
"""Calls that only tell a user something, or that every constructor has."""

_NO_NAMES = {"__all__", "__repr__", "__str__", "TYPE_CHECKING"}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _called_at_import(node: ast.AST) -> Iterator[str]:
    """Names of the functions that code outside of functions calls."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.func.id
    children = ast.iter_child_nodes(node)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        children = iter(node.decorator_list)
    for child in () if isinstance(node, ast.Lambda) else children:
        yield from _called_at_import(child)


class _Finder(ast.NodeVisitor):
    """Walks over what may be changed, and asks every operator about each node."""

    def __init__(self, source: str, called_at_import: frozenset[str]) -> None:
        self._source = _Source(source)
        self._called_at_import = called_at_import
        self._scope: list[str] = []
        self._runs = [False]
        self.edits: list[tuple[str, str, bool, Edit]] = []

    def visit(self, node: ast.AST) -> None:
        if self._is_left_out(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._visit_scope(node)
            return
        for name, operator in OPERATORS.items():
            for edit in operator(node, self._source):
                self.edits.append((name, ".".join(self._scope), self._runs[-1], edit))
        for field, child in ast.iter_fields(node):
            if field in ("annotation", "returns", "format_spec"):
                continue
            for item in child if isinstance(child, list) else [child]:
                if isinstance(item, ast.AST):
                    self.visit(item)

    def _visit_scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if not isinstance(node, ast.ClassDef):
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    self.visit(default)
        compiled = any("kernel" in self._source.text(d) for d in node.decorator_list)
        at_import = not self._scope and node.name in self._called_at_import
        self._scope.append(node.name)
        self._runs.append(not (isinstance(node, ast.ClassDef) or compiled or at_import))
        for statement in node.body:
            self.visit(statement)
        self._scope.pop()
        self._runs.pop()

    def _is_left_out(self, node: ast.AST) -> bool:
        """Messages, annotations, asserts of our own invariants, and what only tells something."""
        if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return True
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in _NO_NAMES:
            return True
        if isinstance(node, ast.keyword) and node.arg in _NO_KEYWORDS:
            return True
        if isinstance(node, ast.If) and self._source.text(node.test) in _NO_NAMES:
            return True
        if isinstance(node, ast.Assign):
            return any(isinstance(t, ast.Name) and t.id in _NO_NAMES for t in node.targets)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return bool(_NO_CALLS.match(self._source.text(node.value.func)))
        return False
