"""`ProcessorCall`: a compiled function of the processor between the kernels of a GPU."""

from dataclasses import replace

from daedal.artifact.host_code import ALIGN, BUFFER_BYTES, CodeCall, HostBuffer, HostCode
from daedal.runtime.host import Arrays
from daedal.runtime.host_code import HostProgram
from daedal.runtime.program_memory import ProgramMemory

__all__ = ["ProcessorCall"]

_RESULT = "y"


class ProcessorCall:
    """A call that copies its operands from a device's memory, and its result back.

    Raises ArtifactError where `code` has no functions for this processor.
    """

    def __init__(self, call: CodeCall, code: HostCode, memory: ProgramMemory) -> None:
        *operands, self._result = call.buffers
        self._operands = {f"x{place}": number for place, number in enumerate(operands)}
        self._memory = memory
        self._program = HostProgram(_alone(call, code, tuple(self._operands)))

    def run(self, _values: Arrays) -> None:
        """Run it after all that was launched before."""
        operands = {name: self._memory.fetch(number) for name, number in self._operands.items()}
        self._memory.store(self._result, self._program.run(operands)[_RESULT])


def _alone(call: CodeCall, code: HostCode, inputs: tuple[str, ...]) -> HostCode:
    """The code of one call, with memory for its tensors alone."""
    buffers, end = list[HostBuffer](), 0
    for number in call.buffers:
        buffer = code.buffers[number]
        buffers.append(replace(buffer, offset=end))
        size = BUFFER_BYTES[buffer.dtype]
        for extent in buffer.shape:
            size *= extent
        end += -(-size // ALIGN) * ALIGN
    names = {name: number for number, name in enumerate((*inputs, _RESULT))}
    step = replace(call, buffers=tuple(range(len(buffers))))
    return HostCode(
        tuple(buffers), names, inputs, (_RESULT,), (step,), (), end, code.objects, code.from_file
    )
