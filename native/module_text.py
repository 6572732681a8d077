"""A kernel, all that it calls and its entry from Python, as one module of LLVM's text."""

from collections.abc import Sequence

from daedal.native.calls import kernel_symbol
from daedal.native.intrinsic import Intrinsic
from daedal.native.metadata import AliasClasses
from daedal.native.record import BOOL, RecordType
from daedal.native.scope import KernelLike, reachable
from daedal.native.statements import function_definition
from daedal.native.types import ArrayType, Kind

__all__ = ["ENTRY", "HEADER_SLOTS", "library_text", "module_text"]

ENTRY = "daedal_entry"
"""Symbol of the entry: it takes the address of an argument block."""

HEADER_SLOTS = 2
"""Slots of an argument block before the parameters': the result and the status."""

_DECLARATIONS = (
    "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)",
    "declare i64 @llvm.abs.i64(i64, i1)",
    "declare double @llvm.fabs.f64(double)",
    "declare i64 @llvm.fptosi.sat.i64.f64(double)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
)


def module_text(kernel: KernelLike, *, checked: bool) -> str:
    """The whole module. Raises KernelError for what the language has not."""
    return library_text([kernel], _entry(kernel, checked), checked=checked)


def library_text(roots: Sequence[KernelLike], text: str, *, checked: bool) -> str:
    """A module of kernels, of all that they call, and of LLVM's text that calls them.

    `text` knows them by `calls.kernel_symbol`, and has each declaration on a line of its own.
    Raises KernelError for what the language has not.
    """
    kernels: list[KernelLike] = []
    intrinsics: list[Intrinsic] = []
    for root in roots:
        own_kernels, own_intrinsics = reachable(root)
        kernels += [item for item in own_kernels if not any(item is known for known in kernels)]
        intrinsics += [
            item for item in own_intrinsics if not any(item is known for known in intrinsics)
        ]
    classes = AliasClasses()
    parts = [function_definition(item, kernels, classes, checked=checked) for item in kernels]
    declarations = dict.fromkeys(_DECLARATIONS)
    for part in [*(function.definition() for function in intrinsics), text]:
        lines = part.splitlines()
        declarations |= dict.fromkeys(line for line in lines if line.startswith("declare "))
        parts.append("\n".join(line for line in lines if not line.startswith("declare ")))
    attributes = 'attributes #0 = { nounwind "prefer-vector-width"="512" }'
    return "\n\n".join([*declarations, *parts, attributes, classes.definitions()]) + "\n"


def _entry(kernel: KernelLike, checked: bool) -> str:
    """Takes the argument block apart: records live on the stack during the call."""
    signature = kernel.signature
    lines, texts, copies = [], [], []
    slot = HEADER_SLOTS
    for position, item in enumerate(signature.parameters):
        at = f"%a{position}"
        lines.append(f"  {at} = getelementptr inbounds i64, ptr %block, i64 {slot}")
        slot += item.slots
        if isinstance(item.type, RecordType):
            size = 8 * item.slots
            lines.append(f"  %r{position} = alloca [{item.slots} x i64], align 8")
            call = "call void @llvm.memcpy.p0.p0.i64"
            lines.append(f"  {call}(ptr %r{position}, ptr {at}, i64 {size}, i1 false)")
            copies.append(f"  {call}(ptr {at}, ptr %r{position}, i64 {size}, i1 false)")
            texts.append(f"ptr %r{position}")
        elif isinstance(item.type, ArrayType):
            lines.append(f"  %p{position} = load ptr, ptr {at}, align 8")
            lines.append(f"  %m{position} = getelementptr inbounds i64, ptr {at}, i64 1")
            lines.append(f"  %n{position} = load i64, ptr %m{position}, align 8")
            texts.append(f"ptr %p{position}, i64 %n{position}")
        elif item.type is BOOL:
            lines.append(f"  %w{position} = load i64, ptr {at}, align 8")
            lines.append(f"  %p{position} = trunc i64 %w{position} to i1")
            texts.append(f"i1 %p{position}")
        else:
            kind = item.type.kind.value
            lines.append(f"  %p{position} = load {kind}, ptr {at}, align 8")
            texts.append(f"{kind} %p{position}")
    if checked:
        lines.append("  %status = getelementptr inbounds i64, ptr %block, i64 1")
        texts.append("ptr %status")
    call = f"{kernel_symbol(kernel)}({', '.join(texts)})"
    result = signature.result
    if result is None:
        lines.append(f"  call void {call}")
    else:
        lines.append(f"  %result = call {result.value} {call}")
        stored = "%result"
        if result is Kind.BOOL:
            lines.append("  %wide = zext i1 %result to i64")
            stored = "%wide"
        kind = "double" if result is Kind.FLOAT else "i64"
        copies.append(f"  store {kind} {stored}, ptr %block, align 8")
    body = "\n".join([*lines, *copies])
    return f"define void @{ENTRY}(ptr %block) #0 {{\n{body}\n  ret void\n}}"
