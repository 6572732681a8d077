"""Calls in the kernel language as LLVM's text: casts, built-in functions, kernels, intrinsics."""

import ast
import builtins
from typing import Any

from daedal.native.arithmetic import Value, integer, truth
from daedal.native.expressions import Expressions, dotted_name
from daedal.native.intrinsic import Intrinsic
from daedal.native.operands import ArrayOperand, Operand, RecordOperand, cast
from daedal.native.record import BOOL, RecordType
from daedal.native.scope import KernelLike, resolve
from daedal.native.signature import Parameter, Signature
from daedal.native.types import ArrayType, Kind, Scalar, f64, i64

__all__ = ["Calls", "kernel_symbol"]

_CASTS: dict[Any, Any] = {int: i64, float: f64, bool: BOOL}


def kernel_symbol(kernel: KernelLike) -> str:
    """A kernel's name in LLVM's text."""
    return f'@"{kernel.function.__module__}.{kernel.function.__qualname__}"'


class Calls(Expressions):
    """Writes calls; see `Expressions` for the rest."""

    def _call(self, node: ast.Call) -> Operand:
        result = self.call(node)
        if result is None:
            self.refuse(node, "a kernel without a result has no value")
        return result

    def call(self, node: ast.Call) -> Value | None:
        """A call; None where the callee returns nothing."""
        if node.keywords or any(isinstance(item, ast.Starred) for item in node.args):
            self.refuse(node, "calls in a kernel pass positional arguments only")
        callee = self._callee(node)
        if callee in (len, min, max, abs):
            return self._builtin(node, callee.__name__)
        kind = callee if isinstance(callee, Scalar) else None
        if isinstance(callee, type):
            kind = _CASTS.get(callee)
        if kind is not None:
            return self._cast(node, kind)
        if isinstance(callee, Intrinsic):
            return self._invoke(node, callee.symbol, callee.signature, status=False)
        if any(callee is known for known in self.kernels):
            return self._invoke(node, kernel_symbol(callee), callee.signature, status=self.checked)
        self.refuse(
            node,
            "a kernel calls kernels, intrinsics, casts and len, min, max, abs, "
            f"not {ast.unparse(node.func)}",
        )

    def _callee(self, node: ast.Call) -> Any:
        dotted = dotted_name(node.func)
        if not dotted or dotted.split(".")[0] in self.locals:
            return None
        try:
            return resolve(self.kernel.function, dotted)
        except LookupError:
            return getattr(builtins, dotted, None)

    def _builtin(self, node: ast.Call, name: str) -> Value:
        operands = [self.operand(item) for item in node.args]
        if name == "len":
            if len(operands) != 1 or not isinstance(operands[0], ArrayOperand):
                self.refuse(node, "len takes one array in a kernel")
            return Value(Kind.INT, operands[0].length)
        values = [item for item in operands if isinstance(item, Value)]
        fewest, most = (1, 1) if name == "abs" else (2, len(operands))
        if len(values) != len(operands) or not fewest <= len(values) <= most:
            self.refuse(node, f"{name} takes numbers in a kernel, {fewest} or more (abs: 1)")
        kind = self.common(node, values)
        if name == "abs":
            return self._absolute(values[0])
        result = values[0] if kind is Kind.FLOAT else integer(self.out, values[0])
        for value in values[1:]:
            if kind is Kind.FLOAT:
                # As Python: a later one replaces only where it is truly smaller or larger.
                order = "olt" if name == "min" else "ogt"
                flag = self.out.value(f"fcmp {order} double {value.text}, {result.text}")
                text = f"select i1 {flag}, double {value.text}, double {result.text}"
            else:
                other = integer(self.out, value)
                text = f"call i64 @llvm.s{name}.i64(i64 {result.text}, i64 {other.text})"
            result = Value(result.kind, self.out.value(text))
        return result

    def _absolute(self, value: Value) -> Value:
        if value.kind is Kind.FLOAT:
            text = f"call double @llvm.fabs.f64(double {value.text})"
            return Value(Kind.FLOAT, self.out.value(text))
        whole = integer(self.out, value)
        text = f"call i64 @llvm.abs.i64(i64 {whole.text}, i1 false)"
        return Value(Kind.INT, self.out.value(text))

    def _cast(self, node: ast.Call, kind: Scalar) -> Value:
        if len(node.args) != 1:
            self.refuse(node, "a cast takes one number")
        value = self.number(node.args[0])
        if kind is BOOL:
            return Value(Kind.BOOL, truth(self.out, value))
        return cast(self.out, kind, value)

    def _invoke(
        self, node: ast.Call, symbol: str, signature: Signature, *, status: bool
    ) -> Value | None:
        name = ast.unparse(node.func)
        if len(node.args) != len(signature.parameters):
            self.refuse(
                node, f"{name} takes {len(signature.parameters)} arguments, not {len(node.args)}"
            )
        texts: list[str] = []
        for item, parameter in zip(node.args, signature.parameters, strict=True):
            text = self._argument(item, parameter, name)
            if isinstance(parameter.type, RecordType) and text in texts:
                self.refuse(item, "one record cannot be passed twice in one call")
            texts.append(text)
        if status:
            texts.append("ptr %status")
        result = signature.result
        call = f"call {'void' if result is None else result.value} {symbol}({', '.join(texts)})"
        value = None
        if result is None:
            self.out.line(call)
        else:
            value = Value(result, self.out.value(call))
        if status:
            found = self.out.value("load i64, ptr %status, align 8")
            fine, passed = self.out.value(f"icmp eq i64 {found}, 0"), self.out.label()
            self.out.branch(fine, passed, "fail")
            self.out.start(passed)
        return value

    def _argument(self, node: ast.expr, parameter: Parameter, name: str) -> str:
        """One argument as LLVM's text."""
        value, wanted = self.operand(node), parameter.type
        if isinstance(wanted, Scalar) and isinstance(value, Value):
            passed = self.converted(node, value, wanted.kind)
            return f"{passed.kind.value} {passed.text}"
        if isinstance(value, ArrayOperand) and wanted == ArrayType(value.element):
            return f"ptr {value.pointer}, i64 {value.length}"
        if isinstance(value, RecordOperand) and wanted == value.type:
            return f"ptr {value.pointer}"
        self.refuse(node, f"argument {parameter.name!r} of {name} has another type")
