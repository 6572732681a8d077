"""`emulated_object`: a kernel as object code for the emulator of GPUs."""

from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.native.codegen import compile_text
from daedal.native.cpu import Cpu

__all__ = ["emulated_object", "emulated_text"]


def emulated_text(kernel: KernelText) -> str:
    """The module: ``void @SYMBOL(ptr %gpu, ptr %buffers)``, what one thread runs.

    `buffers` has the addresses of the parameters, those of maps included. The operations
    ``@gpu.*`` stay undefined.
    """
    numbers = range(kernel.parameters + len(kernel.maps))
    loads = "".join(
        f"  %s{number} = getelementptr ptr, ptr %buffers, i64 {number}\n"
        f"  %p{number} = load ptr, ptr %s{number}, align 8\n"
        for number in numbers
    )
    given = "".join(f", ptr %p{number}" for number in numbers)
    return (
        f"{kernel.text}\n"
        f"define void @{kernel.symbol}(ptr %gpu, ptr %buffers) nounwind {{\n{loads}"
        f"  call void @body(ptr %gpu{given})\n  ret void\n}}\n"
    )


def emulated_object(kernel: KernelText, cpu: Cpu) -> bytes:
    """Its object code for a processor. Raises RuntimeError if LLVM rejects the text."""
    return compile_text(emulated_text(kernel), cpu)
