"""`status_text`: what an error of the CUDA driver means, as the end of a sentence.

Source: CUDA Driver API 13.0, "CUresult".
"""

__all__ = ["LOST", "SUCCESS", "status_text"]

SUCCESS = 0
LOST = frozenset({700, 702, 714, 715, 716, 717, 718, 719})
"""After these, all calls of the process fail."""

_RESTART = "report the model, and start a new process, as the driver runs nothing more in this one"
_COMPILE = "compile the model for this GPU"

_MEANINGS: dict[int, tuple[str, str]] = {
    2: (
        "its memory is full",
        "use a smaller model or batch, or end other processes that use the GPU",
    ),
    34: (
        "the library found is a stub, with which programs are only linked",
        "take folders named 'stubs' off the library path",
    ),
    46: ("another process has it for itself", "end that process, or choose another GPU"),
    100: (
        "the driver finds no GPU",
        "check with nvidia-smi that there is one, and that CUDA_VISIBLE_DEVICES does not hide it",
    ),
    101: ("there is no GPU of this number", "choose one that 'daedal doctor' lists"),
    200: ("the code is neither PTX nor a cubin", _COMPILE),
    209: ("the code is for another generation of GPUs", _COMPILE),
    218: ("the PTX has errors", "report the model"),
    221: (
        "the driver's compiler of PTX is missing",
        "install the complete driver, with libnvidia-ptxjitcompiler",
    ),
    222: ("the driver is older than this version of PTX", "install a newer driver"),
    500: ("the driver does not find a name", "compile the model again"),
    700: ("a kernel accessed memory that is not allocated", _RESTART),
    701: ("a block needs more registers or threads than there are", _COMPILE),
    702: ("a kernel ran for too long", "use a GPU that shows no desktop"),
    715: ("a kernel ran an illegal instruction", _RESTART),
    716: ("a kernel accessed a misaligned address", _RESTART),
    719: ("a kernel failed", _RESTART),
    802: ("the system is not ready", "start NVIDIA's fabric manager"),
    803: (
        "the driver and its library are of different versions",
        "restart the machine, or install both of one version",
    ),
    900: (
        "work that is captured must be launches alone",
        "copy, allocate and wait before or after the capture",
    ),
    901: (
        "something else in the captured work failed",
        "copy, allocate and wait before or after the capture",
    ),
}
"""By number: what is wrong, and what to do."""


def status_text(number: int, name: str) -> str:
    """The reason, the driver's own name of the error, and what to do."""
    reason, remedy = _MEANINGS.get(
        number, ("the driver reports an error", "see the system's log for messages of the driver")
    )
    return f"{reason} ({name}); {remedy}"
