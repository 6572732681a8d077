"""A kernel of the processor between kernels of a GPU has memory for its own tensors alone."""

from daedal.artifact.constants import HostConstant, Values
from daedal.artifact.host_code import ALIGN, CodeCall, HostBuffer, HostCode
from daedal.runtime.processor_call import _alone


def test_tensors_lie_apart_and_aligned() -> None:
    """Whatever their place in the whole program's memory was."""
    buffers = (
        HostBuffer(1024, "float32", (3, 7)),
        HostBuffer(64, "int8", (5,)),
        HostBuffer(0, "float64", (9, 2)),
        HostBuffer(4096, "float32", (16,)),
    )
    names = {"a": 0, "other": 1, "b": 2, "c": 3}
    constants = (HostConstant(0, Values("uint8", (2,), b"12")),)
    call = CodeCall("kernel", (0, 2, 3), 4, 100)
    code = HostCode(buffers, names, ("a", "b"), ("c",), (call,), constants, 8192, {}, False)
    alone = _alone(call, code, ("a", "b"))
    assert [buffer.shape for buffer in alone.buffers] == [(3, 7), (9, 2), (16,)]
    sizes = (3 * 7 * 4, 9 * 2 * 8, 16 * 4)
    end = 0
    for buffer, size in zip(alone.buffers, sizes, strict=True):
        assert buffer.offset % ALIGN == 0 and end <= buffer.offset < end + ALIGN
        end = buffer.offset + size
    assert end <= alone.memory_bytes < end + ALIGN
    assert [alone.names[name] for name in ("a", "b")] == [0, 1]
    assert alone.names[alone.outputs[0]] == 2 and alone.inputs == ("a", "b")
    assert alone.steps[0].buffers == (0, 1, 2) and not alone.constants
