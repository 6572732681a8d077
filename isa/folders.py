"""Writing a folder of files whole, and never over files of somebody else."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from daedal.isa.errors import UserError

__all__ = ["check_folder", "write_folder"]


def check_folder(folder: Path, marker: str) -> None:
    """Raise UserError unless `folder` is new, empty, or holds `marker` from an earlier time."""
    if not folder.exists() and not folder.is_symlink():
        if not folder.parent.is_dir() or not os.access(folder.parent, os.W_OK | os.X_OK):
            raise UserError(
                f"an output folder must lie in one that exists and can be written; {str(folder)!r} "
                "does not: make that folder or choose another path"
            )
        return
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(
            f"an output folder must be one that can be written, not {str(folder)!r}; choose "
            "another path"
        )
    if any(folder.iterdir()) and not (folder / marker).is_file():
        raise UserError(
            f"an output folder must be new, empty, or one of an earlier export; {str(folder)!r} "
            "holds other files: choose another path"
        )


def write_folder(folder: Path, texts: Mapping[str, str], marker: str) -> None:
    """Write texts by their paths within `folder`, and an empty file `marker`.

    A new folder appears with all its files or not at all. In one of an earlier export each file is
    replaced whole, and others stay. Raises UserError as `check_folder`.
    """
    check_folder(folder, marker)
    folder = folder.resolve()
    try:
        stage = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise UserError(
            f"an output folder must lie in one that can be written; {str(folder)!r} does not: "
            f"{error.strerror}"
        ) from error
    try:
        for name, text in {**texts, marker: ""}.items():
            path = stage / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        umask = os.umask(0)
        os.umask(umask)
        stage.chmod(0o777 & ~umask)
        if not folder.is_dir() or not any(folder.iterdir()):
            stage.replace(folder)  # an empty folder may be replaced
            return
        for name in texts:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).replace(folder / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
