"""Writes files atomically: a reader sees the old contents or the new, never a part of them.

An output is a new name, or a regular file, which is replaced. A symbolic link to a regular file
stays a link, and its target is replaced. Everything else (a device, a pipe, a socket, a folder, a
link to one of them, a dangling link) is refused, because a rename would put a file in its place.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from daedal.common.errors import UserError
from daedal.common.inputs import kind_of

__all__ = [
    "check_output_file",
    "check_output_folder",
    "make_folder",
    "replace_output",
    "write_atomically",
]

_MAX_PREFIX = 40
"""Leading characters of an output's name used for its temporary file; names are limited to 255
bytes."""


def check_output_file(path: Path) -> Path:
    """The file that an output is written to: `path`, or the regular file a link points to.

    Raises UserError unless it can be created or replaced. Writes nothing.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is None and path.is_symlink():
        mode = _mode_behind(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise UserError(
            f"an output must be a regular file or a new name, and {str(path)!r} is "
            f"{kind_of(mode)}; choose another path"
        )
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise UserError(
            "an output must be a file in a folder that exists and can be written, not "
            f"{str(path)!r}; make the folder or choose another path"
        )
    return target


def check_output_folder(path: Path, names: Sequence[str] = ()) -> None:
    """Raise UserError unless `path` is a writable folder, or can be created, and files `names` can
    be written in it. Creates nothing."""
    nearest = path
    while (mode := _mode(nearest)) is None:
        nearest = nearest.parent
    if stat.S_ISLNK(mode):
        mode = _mode_behind(nearest)
    if not stat.S_ISDIR(mode) or not os.access(nearest, os.W_OK | os.X_OK):
        problem = "not writable" if stat.S_ISDIR(mode) else kind_of(mode)
        raise UserError(
            f"an output folder must be one that can be made and written; {str(path)!r} is not: "
            f"{str(nearest)!r} is {problem}; choose another path"
        )
    if nearest == path:
        for name in names:
            check_output_file(path / name)


def make_folder(path: Path) -> None:
    """Create a folder and its parents unless they exist. Raises UserError on failure."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"an output folder must be one that can be made; {str(path)!r} is not: "
            f"{error.strerror}; choose another path"
        ) from error


def replace_output(made: Path, path: Path) -> None:
    """Replace the output `path` by the file `made`. Raises as `check_output_file`."""
    os.replace(made, check_output_file(path))


def write_atomically(path: Path, data: bytes | str, *, private: bool = False) -> None:
    """Write `data` to `path` through a temporary file in the same folder.

    A `private` file is one that only this user may open; others may read what the umask says.
    Characters that UTF-8 lacks, from file names in another encoding, are escaped.

    Raises UserError where `check_output_file` does, and where the disk is full.
    """
    content = data.encode(errors="backslashreplace") if isinstance(data, str) else data
    target = check_output_file(path)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name[:_MAX_PREFIX]}."
        )
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if not private:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
        replace_output(Path(temporary), path)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if isinstance(error, OSError):
            raise UserError(
                f"an output file must be writable; {str(path)!r} is not: {error.strerror}; make "
                "room or choose another path"
            ) from error
        raise


def _mode(path: Path) -> int | None:
    """The file mode at a path, without following links; None if nothing exists there."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(
            f"an output must have a path that can be made; {str(path)[:200]!r} has none: "
            f"{error.strerror}; choose another path"
        ) from error


def _mode_behind(link: Path) -> int:
    """The file mode of a link's target; that of a link if it is dangling."""
    try:
        return os.stat(link).st_mode
    except OSError:
        return stat.S_IFLNK
