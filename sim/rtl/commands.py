"""The host's side of the command protocol of `hdl/harness.v`: numeric codes and their meanings."""

__all__ = [
    "OP_BREAK",
    "OP_DUMP",
    "OP_FILL",
    "OP_LOAD",
    "OP_READ",
    "OP_START",
    "OP_WAIT",
    "OP_WRITE",
    "STATUS_RUNNING",
    "STATUS_TIMEOUT",
    "complaint",
]

OP_RESET, OP_WRITE, OP_READ, OP_START, OP_WAIT, OP_LOAD, OP_DUMP, OP_FILL = range(1, 9)
OP_BREAK = 9
STATUS_OK, STATUS_RUNNING, STATUS_TIMEOUT, STATUS_SILENT, STATUS_BUS_ERROR, STATUS_FILE = range(6)

_TEXT = {
    STATUS_SILENT: "the control bus did not answer",
    STATUS_BUS_ERROR: "the control bus answered with an error",
    STATUS_FILE: "the memory image file is shorter than the job says",
}


def complaint(op: int, address: int, status: int) -> str | None:
    """Say what went wrong with command `op` at `address`; None if it succeeded."""
    text = _TEXT.get(status)
    if text is None or status == STATUS_FILE:
        return text
    return f"{'read' if op == OP_READ else 'write'} of register {address:#x}: {text}"
