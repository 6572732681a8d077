"""`lock_device`: a board belongs to one process at a time.

Two drivers would place their regions at the same addresses, and each would leave out the setup of a
program whose weights the other has overwritten. The bridge of a serial board, which repeats its
last answer to a request with the same tag, would give one driver the answer to the other's request.
"""

import fcntl
import os

from daedal.common.errors import UserError

__all__ = ["lock_device", "unlock_device"]


def lock_device(handle: int, path: str) -> None:
    """Lock the device that is open as `handle`, until this is closed.

    Raises UserError where another process holds it, or this one by another handle.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UserError(
            f"a board must be used by one device of one process at a time, and {path!r} is in "
            "use: end the other process, or close the other device"
        ) from error
    except OSError as error:
        raise UserError(
            f"a board must be locked for one process; {path!r} cannot be: {error.strerror}; name "
            "another path"
        ) from error


def unlock_device(handle: int) -> None:
    """Unlock a device and close `handle`; a mapping of it may live on, with a handle of its own."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)
