"""Expressions of the kernel language as LLVM's text."""

import ast
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from daedal.common.errors import KernelError
from daedal.native.arithmetic import (
    Value,
    float_text,
    integer,
    integer_binary,
    literal,
    to_float,
    truth,
)
from daedal.native.failure import Failure, failure_code
from daedal.native.function_text import FunctionText
from daedal.native.metadata import AliasClasses
from daedal.native.operands import (
    ArrayOperand,
    Operand,
    RecordOperand,
    load_array_field,
    load_element,
    load_field,
)
from daedal.native.scope import KernelLike, as_constant, resolve
from daedal.native.signature import where
from daedal.native.types import ArrayType, Kind, i64

__all__ = ["Expressions", "dotted_name"]

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("eq", "oeq"),
    ast.NotEq: ("ne", "une"),
    ast.Lt: ("slt", "olt"),
    ast.LtE: ("sle", "ole"),
    ast.Gt: ("sgt", "ogt"),
    ast.GtE: ("sge", "oge"),
}
_FLOAT_BINARY = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}


def dotted_name(node: ast.expr) -> str | None:
    """``a.b.c`` of names and attributes, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted_name(node.value)
        return None if head is None else f"{head}.{node.attr}"
    return None


class Expressions:
    """Writes expressions of one function.

    `variables` has the operands of parameters that are arrays or records; `slots` the stack slots
    of the other locals. Subclasses write statements.
    """

    def __init__(
        self,
        kernel: KernelLike,
        kernels: Sequence[KernelLike],
        classes: AliasClasses,
        checked: bool,
    ) -> None:
        self.kernel = kernel
        self.kernels = list(kernels)
        self.classes = classes
        self.checked = checked
        self.out = FunctionText()
        self.slots: dict[str, str] = {}
        self.kinds: dict[str, Kind | ArrayType] = {}
        self.variables: dict[str, Operand] = {}
        self.locals: frozenset[str] = frozenset()

    # Refusals and checks

    def refuse(self, node: ast.AST, rule: str) -> NoReturn:
        """Raise KernelError: the rule, and where it is broken."""
        function = self.kernel.function
        place = where(function, getattr(node, "lineno", None))
        raise KernelError(f"{rule} ({place}, kernel {function.__name__!r})")

    def require(self, condition: str, failure: Failure, node: ast.AST) -> None:
        """In a checked kernel: return with a failure status unless the i1 is set."""
        if not self.checked or condition == "true":
            return
        number = next(i for i, known in enumerate(self.kernels) if known is self.kernel)
        passed, failed = self.out.label(), self.out.label()
        self.out.branch(condition, passed, failed)
        self.out.start(failed)
        code = failure_code(number, getattr(node, "lineno", 0), failure)
        self.out.line(f"store i64 {code}, ptr %status, align 8")
        self.out.jump("fail")
        self.out.start(passed)

    # Entry points

    def operand(self, node: ast.expr) -> Operand:
        """Any expression."""
        method: Callable[[Any], Operand] | None = getattr(
            self, f"_{type(node).__name__.lower()}", None
        )
        if method is None:
            self.refuse(node, f"a kernel has no {type(node).__name__} expressions")
        return method(node)

    def number(self, node: ast.expr) -> Value:
        """An expression that must be a number."""
        result = self.operand(node)
        if not isinstance(result, Value):
            what = "an array" if isinstance(result, ArrayOperand) else "a record"
            self.refuse(node, f"a kernel computes with numbers, not with {what}")
        return result

    def whole(self, node: ast.expr, what: str) -> Value:
        """An expression that must be an integer or bool, as an integer."""
        value = self.number(node)
        if value.kind is Kind.FLOAT:
            self.refuse(node, f"{what} must be an integer, not a float; write i64(...)")
        return integer(self.out, value)

    def condition(self, node: ast.expr) -> str:
        """i1: the truth of an expression."""
        return truth(self.out, self.number(node))

    def converted(self, node: ast.AST, value: Value, kind: Kind) -> Value:
        """A number as `kind`: a bool widens to an integer, anything else must fit already."""
        if value.kind is kind:
            return value
        if kind is Kind.INT and value.kind is Kind.BOOL:
            return integer(self.out, value)
        names = {Kind.INT: "an integer", Kind.FLOAT: "a float", Kind.BOOL: "a bool"}
        self.refuse(
            node, f"this must be {names[kind]}, not {names[value.kind]}; write a cast or compare"
        )

    # Leaves

    def _constant(self, node: ast.Constant) -> Operand:
        number = as_constant(node.value)
        if number is None:
            self.refuse(node, f"a kernel's literals are numbers, not {node.value!r}")
        return self._number_of(node, number)

    def _number_of(self, node: ast.AST, number: int | float | bool) -> Value:
        if isinstance(number, bool):
            return Value(Kind.BOOL, "true" if number else "false")
        if isinstance(number, float):
            return Value(Kind.FLOAT, float_text(number))
        if i64(number) != number:
            self.refuse(node, f"a kernel's integers have 64 bits with sign, not {number}")
        return Value(Kind.INT, str(number))

    def _name(self, node: ast.Name) -> Operand:
        if node.id in self.variables:
            return self.variables[node.id]
        if node.id in self.locals:
            return self.read_local(node.id)
        return self._global(node, node.id)

    def _global(self, node: ast.AST, dotted: str) -> Operand:
        try:
            number = as_constant(resolve(self.kernel.function, dotted))
        except LookupError:
            self.refuse(node, f"a kernel knows its locals and module-level names, not {dotted!r}")
        if number is None:
            self.refuse(node, f"a module-level name in a kernel must be a number, not {dotted!r}")
        return self._number_of(node, number)

    def read_local(self, name: str) -> Operand:
        """A local variable; one that nothing has been assigned to yet counts as an integer."""
        kind = self.kinds.get(name, Kind.INT)
        slot = self.slot(name, kind)
        if isinstance(kind, ArrayType):
            pointer = self.out.value(f"load ptr, ptr {slot}")
            second = self.out.value(f"getelementptr inbounds i64, ptr {slot}, i64 1")
            return ArrayOperand(kind.element, pointer, self.out.value(f"load i64, ptr {second}"))
        return Value(kind, self.out.value(f"load {kind.value}, ptr {slot}"))

    def slot(self, name: str, kind: Kind | ArrayType) -> str:
        """The stack slot of a local."""
        if name not in self.slots:
            llvm = "{ ptr, i64 }" if isinstance(kind, ArrayType) else kind.value
            self.slots[name] = self.out.allocate(llvm)
        return self.slots[name]

    # Fields and elements

    def _attribute(self, node: ast.Attribute) -> Operand:
        dotted = dotted_name(node)
        root = dotted.split(".")[0] if dotted else ""
        if dotted and root not in self.variables and root not in self.locals:
            return self._global(node, dotted)
        record = self.operand(node.value)
        if not isinstance(record, RecordOperand):
            self.refuse(node, f"only a record has fields in a kernel, not what .{node.attr} is of")
        field = record.type.field(node.attr)
        if field is None:
            self.refuse(node, f"record {record.type.name} has no field {node.attr!r}")
        if isinstance(field.type, ArrayType):
            return load_array_field(self.out, self.classes, record, field)
        return load_field(self.out, self.classes, record, field)

    def element(self, node: ast.Subscript) -> tuple[ArrayOperand, Value]:
        """The array and the checked index of a subscript."""
        array = self.operand(node.value)
        if not isinstance(array, ArrayOperand):
            self.refuse(node, "only arrays have elements in a kernel")
        if isinstance(node.slice, ast.Slice | ast.Tuple):
            self.refuse(node, "a kernel's arrays are indexed by one integer, not sliced")
        index = self.whole(node.slice, "an index")
        if self.checked:
            inside = self.out.value(f"icmp ult i64 {index.text}, {array.length}")
            self.require(inside, Failure.INDEX, node)
        return array, index

    def _subscript(self, node: ast.Subscript) -> Operand:
        array, index = self.element(node)
        return load_element(self.out, self.classes, array, index)

    # Operators

    def _binop(self, node: ast.BinOp) -> Operand:
        return self.binary(node, node.op, self.number(node.left), self.number(node.right))

    def binary(self, node: ast.AST, op: ast.operator, a: Value, b: Value) -> Value:
        """``a op b``."""
        sign = _BINARY.get(type(op))
        if sign is None:
            self.refuse(node, f"a kernel has no operator {type(op).__name__}")
        if sign == "/" or Kind.FLOAT in (a.kind, b.kind):
            if sign not in _FLOAT_BINARY:
                self.refuse(node, f"operator {sign} takes integers in a kernel, not floats")
            x, y = to_float(self.out, a), to_float(self.out, b)
            if sign == "/" and self.checked:
                nonzero = self.out.value(f"fcmp une double {y.text}, 0.0")
                self.require(nonzero, Failure.DIVISION, node)
            text = self.out.value(f"{_FLOAT_BINARY[sign]} double {x.text}, {y.text}")
            return Value(Kind.FLOAT, text)
        if sign in "&|^" and a.kind is Kind.BOOL and b.kind is Kind.BOOL:
            name = {"&": "and", "|": "or", "^": "xor"}[sign]
            return Value(Kind.BOOL, self.out.value(f"{name} i1 {a.text}, {b.text}"))
        x, y = integer(self.out, a), integer(self.out, b)
        if self.checked and literal(y) is None:
            if sign in ("//", "%"):
                nonzero = self.out.value(f"icmp ne i64 {y.text}, 0")
                self.require(nonzero, Failure.DIVISION, node)
            if sign in ("<<", ">>"):
                positive = self.out.value(f"icmp sge i64 {y.text}, 0")
                self.require(positive, Failure.SHIFT, node)
        return integer_binary(self.out, sign, x, y)

    def _unaryop(self, node: ast.UnaryOp) -> Operand:
        if isinstance(node.op, ast.Not):
            flag = self.condition(node.operand)
            if flag in ("true", "false"):
                return Value(Kind.BOOL, "false" if flag == "true" else "true")
            return Value(Kind.BOOL, self.out.value(f"xor i1 {flag}, true"))
        value = self.number(node.operand)
        if value.kind is Kind.FLOAT:
            if isinstance(node.op, ast.USub):
                return Value(Kind.FLOAT, self.out.value(f"fneg double {value.text}"))
            if isinstance(node.op, ast.Invert):
                self.refuse(node, "operator ~ takes integers in a kernel, not floats")
            return value
        x = integer(self.out, value)
        if isinstance(node.op, ast.USub):
            return integer_binary(self.out, "-", Value(Kind.INT, "0"), x)
        if isinstance(node.op, ast.Invert):
            return integer_binary(self.out, "^", x, Value(Kind.INT, "-1"))
        return x

    def _compare(self, node: ast.Compare) -> Operand:
        left = self.number(node.left)
        pairs = list(zip(node.ops, node.comparators, strict=True))
        if len(pairs) == 1:
            right = self.number(pairs[0][1])
            return Value(Kind.BOOL, self._compared(node, pairs[0][0], left, right))
        end = self.out.label()
        arrivals = []
        for position, (op, comparator) in enumerate(pairs):
            right = self.number(comparator)
            flag = self._compared(node, op, left, right)
            left = right
            if position < len(pairs) - 1:
                following = self.out.label()
                if flag != "true":
                    arrivals.append(("false", self.out.block))
                self.out.branch(flag, following, end)
                self.out.start(following)
            else:
                arrivals.append((flag, self.out.block))
        self.out.start(end)
        return self._merged(Kind.BOOL, arrivals)

    def _compared(self, node: ast.AST, op: ast.cmpop, a: Value, b: Value) -> str:
        names = _COMPARE.get(type(op))
        if names is None:
            self.refuse(node, f"a kernel has no comparison {type(op).__name__}")
        if Kind.FLOAT in (a.kind, b.kind):
            x, y = to_float(self.out, a), to_float(self.out, b)
            return self.out.value(f"fcmp {names[1]} double {x.text}, {y.text}")
        x, y = integer(self.out, a), integer(self.out, b)
        return self.out.value(f"icmp {names[0]} i64 {x.text}, {y.text}")

    def _boolop(self, node: ast.BoolOp) -> Operand:
        end = self.out.label()
        arrivals: list[tuple[Value, str]] = []
        for position, item in enumerate(node.values):
            value = self.number(item)
            if position == len(node.values) - 1:
                arrivals.append((value, self.out.block))
                break
            flag = truth(self.out, value)
            arrivals.append((value, self.out.block))
            following = self.out.label()
            stops = isinstance(node.op, ast.Or)
            # A branch on a literal goes one way; through a register both arrivals stay true.
            flag = flag if flag.startswith("%") else self.out.value(f"or i1 {flag}, false")
            self.out.branch(flag, *((end, following) if stops else (following, end)))
            self.out.start(following)
        kind = self.common(node, [value for value, _ in arrivals])
        if kind is Kind.INT and any(value.kind is Kind.BOOL for value, _ in arrivals):
            self.refuse(node, "and/or must join values of one type; write bool(...) or compare")
        self.out.start(end)
        return self._merged(kind, [(value.text, block) for value, block in arrivals])

    def _ifexp(self, node: ast.IfExp) -> Operand:
        yes, no, end = self.out.label(), self.out.label(), self.out.label()
        flag = self.condition(node.test)
        flag = flag if flag.startswith("%") else self.out.value(f"or i1 {flag}, false")
        self.out.branch(flag, yes, no)
        self.out.start(yes)
        first = self.number(node.body)
        from_first = self.out.block
        self.out.jump(end)
        self.out.start(no)
        second = self.number(node.orelse)
        from_second = self.out.block
        kind = self.common(node, [first, second])
        if first.kind is not second.kind:
            self.refuse(node, "both values of a conditional must have one type; write a cast")
        self.out.start(end)
        return self._merged(kind, [(first.text, from_first), (second.text, from_second)])

    def common(self, node: ast.AST, values: Sequence[Value]) -> Kind:
        """The common kind of the values."""
        kinds = {value.kind for value in values}
        if len(kinds) == 1:
            return kinds.pop()
        if kinds == {Kind.INT, Kind.BOOL}:
            return Kind.INT
        self.refuse(node, "a kernel mixes integers and floats through f64(...) only")

    def _merged(self, kind: Kind, arrivals: Sequence[tuple[str, str]]) -> Value:
        pairs = ", ".join(f"[ {text}, %{block} ]" for text, block in arrivals)
        return Value(kind, self.out.value(f"phi {kind.value} {pairs}"))
