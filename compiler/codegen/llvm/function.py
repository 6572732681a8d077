"""`function_text`: a scheduled function as a module of LLVM's text.

The symbol takes ``(ptr buffers, i64 begin, i64 end)``: the addresses of the parameters in order,
and which iterations of the outermost loop to run, if that is parallel (else 0 and 1). It returns an
i64: 0, or in the checked form 1 where an index was outside its buffer.
"""

import re

from daedal.compiler.codegen.llvm.statements import Statements
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.stmt import For, PrimFunc

__all__ = ["declarations", "function_text", "parallel_extent"]

_CALL = re.compile(r"call ([^@\n\"]+) @([\w.]+)\(")


def parallel_extent(func: PrimFunc) -> int:
    """Iterations of the outermost loop if it is parallel, else 1."""
    body = func.body
    return body.extent if isinstance(body, For) and body.kind == "parallel" else 1


def function_text(func: PrimFunc, symbol: str, *, checked: bool = False) -> str:
    """A module with the function as `symbol`; `checked`: in its checked form.

    Raises UnsupportedError for what has no code: an intrinsic, or buffers too large for the stack.
    """
    body = _body(lower(func), checked)
    parameters = ", ".join(
        f"ptr noalias {'' if buffer in func.outputs else 'readonly '}%a{number}"
        for number, buffer in enumerate(func.params)
    )
    lines = []
    for number in range(len(func.params)):
        lines.append(f"  %s{number} = getelementptr ptr, ptr %buffers, i64 {number}")
        lines.append(f"  %p{number} = load ptr, ptr %s{number}, align 8")
    given = ", ".join(f"ptr %p{number}" for number in range(len(func.params)))
    entry = "\n".join(lines)
    text = (
        f"define internal i64 @body({parameters}, i64 %begin, i64 %end) #0 {{\n{body}\n}}\n\n"
        f"define i64 @{symbol}(ptr %buffers, i64 %begin, i64 %end) #0 {{\n{entry}\n"
        f"  %r = call i64 @body({given}, i64 %begin, i64 %end)\n  ret i64 %r\n}}\n\n"
        'attributes #0 = { nounwind "prefer-vector-width"="512" }\n'
    )
    return declarations(text) + text


def _body(func: PrimFunc, checked: bool) -> str:
    """The body of a lowered function."""
    pointers = {buffer: f"ptr %a{number}" for number, buffer in enumerate(func.params)}
    writer = Statements(func.name, pointers, checked=checked)
    writer.write_function(func.body, "%begin", "%end")
    writer.text.leave("ret i64 0")
    writer.text.start(writer.failure)
    writer.text.leave("ret i64 1")
    return writer.text.body()


def declarations(text: str) -> str:
    """A declaration for every function that is called and not defined, but for `body`."""
    found: dict[str, str] = {}
    for call in _CALL.finditer(text):
        result, name = call.groups()
        if name != "body" and name not in found:
            kinds = ", ".join(_argument_type(item) for item in _arguments(text, call.end()))
            found[name] = f"declare {result} @{name}({kinds})\n"
    return "".join(found[name] for name in sorted(found)) + "\n"


def _arguments(text: str, start: int) -> list[str]:
    """Arguments of a call, from behind its parenthesis to the one that closes it."""
    parts, depth = [], 0
    for position in range(start, len(text)):
        letter = text[position]
        depth += (letter in "<(") - (letter in ">)")
        if depth < 0 or (letter == "," and not depth):
            parts.append(text[start:position])
            start = position + 1
        if depth < 0:
            break
    return [part for part in parts if part.strip()]


def _argument_type(argument: str) -> str:
    argument = argument.strip()
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    if argument.startswith("ptr addrspace("):
        return argument[: argument.index(")") + 1]
    return argument.split(" ", 1)[0]
