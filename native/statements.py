"""Statements of the kernel language as LLVM's text: one whole function."""

import ast
import inspect
import textwrap
import types
from collections.abc import Sequence

from daedal.common.errors import KernelError
from daedal.native.arithmetic import Value, literal
from daedal.native.calls import Calls, kernel_symbol
from daedal.native.failure import Failure
from daedal.native.metadata import AliasClasses
from daedal.native.operands import (
    ArrayOperand,
    RecordOperand,
    cast,
    load_element,
    store_element,
    store_field,
)
from daedal.native.record import BOOL
from daedal.native.scope import KernelLike
from daedal.native.signature import where
from daedal.native.types import ArrayType, Kind, Scalar

__all__ = ["function_definition"]

_ROUNDS = 8


def function_definition(
    kernel: KernelLike, kernels: Sequence[KernelLike], classes: AliasClasses, *, checked: bool
) -> str:
    """LLVM's text of one kernel.

    Types of locals are inferred from assignments: the function is written again until they are
    stable. Raises KernelError for unsupported constructs.
    """
    tree = _parse(kernel)
    kinds: dict[str, Kind | ArrayType] = {}
    for _ in range(_ROUNDS):
        writer = Statements(kernel, kernels, classes, checked)
        writer.kinds = dict(kinds)
        text = writer.definition(tree)
        if writer.kinds == kinds:
            return text
        kinds = writer.kinds
    raise AssertionError("types of locals only widen, so they settle")


def _parse(kernel: KernelLike) -> ast.FunctionDef:
    function = kernel.function
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        raise KernelError(
            f"a kernel must be written in a file, not typed in ({where(function)}, kernel "
            f"{function.__name__!r})"
        ) from None
    try:
        module = ast.parse(source)
    except SyntaxError:
        module = ast.Module([], [])
    # A file that was edited after it was imported: its text no longer is this function.
    if not _same_code(module, function.__code__):
        raise KernelError(
            f"a kernel's file must not change while it is in use; start again "
            f"({where(function)}, kernel {function.__name__!r})"
        )
    tree = module.body[0]
    assert isinstance(tree, ast.FunctionDef), "the decorator takes functions only"
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    return tree


def _same_code(module: ast.Module, loaded: types.CodeType) -> bool:
    """Whether a module's text gives the function whose byte code was loaded."""
    code = compile(module, loaded.co_filename, "exec", dont_inherit=True)
    return any(
        _essence(item) == _essence(loaded)
        for item in code.co_consts
        if isinstance(item, types.CodeType) and item.co_name == loaded.co_name
    )


def _essence(code: types.CodeType) -> str:
    """The byte code's behaviour, independent of file and line numbers."""
    constants = [
        _essence(item) if isinstance(item, types.CodeType) else item for item in code.co_consts
    ]
    return repr((code.co_code, constants, code.co_names, code.co_varnames))


def _assigned(tree: ast.FunctionDef) -> frozenset[str]:
    return frozenset(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


class Statements(Calls):
    """Writes the statements of one function; see `Calls` and `Expressions` for the rest."""

    _loops: list[tuple[str, str]]

    def definition(self, tree: ast.FunctionDef) -> str:
        """The function."""
        self._loops = []
        signature = self.kernel.signature
        self.locals = _assigned(tree) | {item.name for item in signature.parameters}
        texts = []
        for position, item in enumerate(signature.parameters):
            kind = item.type
            if isinstance(kind, Scalar):
                texts.append(f"{kind.kind.value} %p{position}")
                value = Value(kind.kind, f"%p{position}")
                self.kinds[item.name] = kind.kind
                slot = self.slot(item.name, kind.kind)
                value = value if kind is BOOL else cast(self.out, kind, value)
                self.out.line(f"store {kind.kind.value} {value.text}, ptr {slot}")
            elif isinstance(kind, ArrayType):
                texts.append(f"ptr %p{position}, i64 %n{position}")
                self.variables[item.name] = ArrayOperand(
                    kind.element, f"%p{position}", f"%n{position}"
                )
            else:
                texts.append(f"ptr noalias nocapture %p{position}")
                self.variables[item.name] = RecordOperand(kind, f"%p{position}")
        if self.checked:
            texts.append("ptr noalias %status")
        self._block(tree.body)
        result = signature.result
        if self.out.reachable and result is not None:
            self.refuse(tree, "a kernel with a result must return one on every path")
        self.out.leave("ret void")
        self.out.start("fail")
        zero = "ret void" if result is None else f"ret {result.value} {_ZERO[result]}"
        self.out.leave(zero)
        head = "void" if result is None else result.value
        symbol = kernel_symbol(self.kernel)
        return f"define internal {head} {symbol}({', '.join(texts)}) #0 {{\n{self.out.body()}\n}}"

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            method = getattr(self, f"_do_{type(node).__name__.lower()}", None)
            if method is None:
                self.refuse(node, f"a kernel has no {type(node).__name__} statements")
            method(node)

    # Simple statements

    def _do_pass(self, node: ast.Pass) -> None:
        pass

    def _do_expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        if not isinstance(node.value, ast.Call):
            self.refuse(node, "a kernel's expression statements are calls and docstrings")
        self.call(node.value)

    def _do_return(self, node: ast.Return) -> None:
        result = self.kernel.signature.result
        if node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            if result is not None:
                self.refuse(node, "a kernel with a result must return one on every path")
            self.out.leave("ret void")
            return
        if result is None:
            self.refuse(node, "a kernel annotated with None returns nothing")
        value = self.converted(node, self.number(node.value), result)
        self.out.leave(f"ret {result.value} {value.text}")

    def _do_assert(self, node: ast.Assert) -> None:
        if self.checked:
            self.require(self.condition(node.test), Failure.ASSERTION, node)

    def _do_break(self, node: ast.Break) -> None:
        self.out.jump(self._loops[-1][1])

    def _do_continue(self, node: ast.Continue) -> None:
        self.out.jump(self._loops[-1][0])

    # Assignments

    def _do_assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Tuple):
            if not isinstance(node.value, ast.Tuple) or len(node.value.elts) != len(target.elts):
                self.refuse(node, "a kernel unpacks tuples that are written out, of equal length")
            values = [self.number(item) for item in node.value.elts]
            for item, value in zip(target.elts, values, strict=True):
                self._store(item, value)
            return
        operand = self.operand(node.value)
        if isinstance(operand, RecordOperand):
            self.refuse(node, "a kernel does not bind records to further names")
        for item in node.targets:
            self._store(item, operand)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.refuse(node, "a kernel's annotated assignment needs a value")
        self._store(node.target, self.operand(node.value))

    def _do_augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            array, index = self.element(target)
            old = load_element(self.out, self.classes, array, index)
            new = self.binary(node, node.op, old, self.number(node.value))
            self._put_element(node, array, index, new)
        elif isinstance(target, ast.Attribute):
            old = self.number(_as_loaded(target))
            self._store(target, self.binary(node, node.op, old, self.number(node.value)))
        else:
            old = self.number(_as_loaded(target))
            self._store(target, self.binary(node, node.op, old, self.number(node.value)))

    def _store(self, target: ast.expr, operand: Value | ArrayOperand | RecordOperand) -> None:
        if isinstance(target, ast.Name):
            self._store_local(target, operand)
            return
        if not isinstance(operand, Value):
            self.refuse(target, "a kernel binds arrays to local names only")
        if isinstance(target, ast.Subscript):
            self._put_element(target, *self.element(target), operand)
        elif isinstance(target, ast.Attribute):
            record = self.operand(target.value)
            if not isinstance(record, RecordOperand):
                self.refuse(target, "only a record has fields in a kernel")
            field = record.type.field(target.attr)
            if field is None or not isinstance(field.type, Scalar):
                self.refuse(target, f"record {record.type.name} has no scalar {target.attr!r}")
            value = self.converted(target, operand, field.type.kind)
            store_field(self.out, self.classes, record, field, value)
        else:
            self.refuse(target, "a kernel assigns to names, fields and elements")

    def _store_local(self, target: ast.Name, operand: Value | ArrayOperand | RecordOperand) -> None:
        name = target.id
        if name in self.variables:
            self.refuse(target, f"a kernel does not rebind its parameter {name!r}")
        if isinstance(operand, ArrayOperand):
            kind = ArrayType(operand.element)
            if self.kinds.setdefault(name, kind) != kind:
                self.refuse(target, f"local {name!r} must keep one type; use another name")
            slot = self.slot(name, kind)
            self.out.line(f"store ptr {operand.pointer}, ptr {slot}")
            second = self.out.value(f"getelementptr inbounds i64, ptr {slot}, i64 1")
            self.out.line(f"store i64 {operand.length}, ptr {second}")
            return
        assert isinstance(operand, Value), "records are refused before"
        known = self.kinds.setdefault(name, operand.kind)
        if isinstance(known, ArrayType):
            self.refuse(target, f"local {name!r} must keep one type; use another name")
        if known is not operand.kind:
            if {known, operand.kind} != {Kind.INT, Kind.BOOL}:
                self.refuse(target, f"local {name!r} must keep one type; use another name")
            if known is Kind.BOOL:
                # Widens in the next round; what this round writes is thrown away.
                self.kinds[name] = Kind.INT
                return
        value = self.converted(target, operand, known)
        self.out.line(f"store {known.value} {value.text}, ptr {self.slot(name, known)}")

    def _put_element(self, node: ast.AST, array: ArrayOperand, index: Value, value: Value) -> None:
        value = self.converted(node, value, array.element.kind)
        store_element(self.out, self.classes, array, index, value)

    # Control flow

    def _do_if(self, node: ast.If) -> None:
        yes, no, end = self.out.label(), self.out.label(), self.out.label()
        self.out.branch(self.condition(node.test), yes, no)
        self.out.start(yes)
        self._block(node.body)
        self.out.jump(end)
        self.out.start(no)
        self._block(node.orelse)
        self.out.start(end)

    def _do_while(self, node: ast.While) -> None:
        self._no_else(node)
        head, body, end = self.out.label(), self.out.label(), self.out.label()
        self.out.start(head)
        self.out.branch(self.condition(node.test), body, end)
        self.out.start(body)
        self._loops.append((head, end))
        self._block(node.body)
        self._loops.pop()
        self.out.jump(head)
        self.out.start(end)

    def _do_for(self, node: ast.For) -> None:
        self._no_else(node)
        bounds = self._range(node)
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "a kernel's for loop counts in one name")
        start, stop, step = bounds
        head, body, following, end = (self.out.label() for _ in range(4))
        counter = self.out.allocate("i64")
        self.out.line(f"store i64 {start.text}, ptr {counter}")
        self.out.start(head)
        now = self.out.value(f"load i64, ptr {counter}")
        self.out.branch(self._more(now, stop, step), body, end)
        self.out.start(body)
        self._store_local(node.target, Value(Kind.INT, now))
        self._loops.append((following, end))
        self._block(node.body)
        self._loops.pop()
        self.out.start(following)
        before = self.out.value(f"load i64, ptr {counter}")
        after = self.out.value(f"add nsw i64 {before}, {step.text}")
        self.out.line(f"store i64 {after}, ptr {counter}")
        self.out.jump(head)
        self.out.start(end)

    def _range(self, node: ast.For) -> tuple[Value, Value, Value]:
        call = node.iter
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Name)
            or call.func.id != "range"
            or call.keywords
            or not 1 <= len(call.args) <= 3
        ):
            self.refuse(node, "a kernel's for loop runs over range(...)")
        values = [self.whole(item, "a bound of range") for item in call.args]
        if len(values) == 1:
            values.insert(0, Value(Kind.INT, "0"))
        step = values[2] if len(values) == 3 else Value(Kind.INT, "1")
        if literal(step) == 0:
            self.refuse(node, "the step of range must not be 0")
        if literal(step) is None and self.checked:
            nonzero = self.out.value(f"icmp ne i64 {step.text}, 0")
            self.require(nonzero, Failure.STEP, node)
        return values[0], values[1], step

    def _more(self, now: str, stop: Value, step: Value) -> str:
        """i1: whether the loop goes on."""
        number = literal(step)
        if number is not None:
            order = "slt" if number > 0 else "sgt"
            return self.out.value(f"icmp {order} i64 {now}, {stop.text}")
        up = self.out.value(f"icmp sgt i64 {step.text}, 0")
        down = self.out.value(f"icmp slt i64 {step.text}, 0")
        below = self.out.value(f"icmp slt i64 {now}, {stop.text}")
        above = self.out.value(f"icmp sgt i64 {now}, {stop.text}")
        rises = self.out.value(f"and i1 {up}, {below}")
        falls = self.out.value(f"and i1 {down}, {above}")
        return self.out.value(f"or i1 {rises}, {falls}")

    def _no_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            self.refuse(node, "a kernel's loops have no else")


_ZERO = {Kind.INT: "0", Kind.FLOAT: "0.0", Kind.BOOL: "false"}


def _as_loaded(target: ast.expr) -> ast.expr:
    """The same expression, read instead of written."""
    loaded = ast.parse(ast.unparse(target), mode="eval").body
    for node in ast.walk(loaded):
        ast.copy_location(node, target)
    return loaded
