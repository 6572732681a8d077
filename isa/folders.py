"""Writes a folder of files as a whole, and never overwrites files that it did not write itself."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from daedal.common.errors import UserError
from daedal.common.files import check_output_file, make_folder, replace_output

__all__ = ["check_folder", "write_folder"]


def check_folder(folder: Path, marker: str) -> None:
    """Raise UserError unless `folder` is new, empty, or has `marker` from an earlier export."""
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

    A new folder appears with all its files or not at all. In the folder of an earlier export, each
    file is replaced atomically, and other files stay. Raises UserError as `check_folder`.
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
            make_folder(path.parent)
            path.write_bytes(text.encode())
        umask = os.umask(0)
        os.umask(umask)
        stage.chmod(0o777 & ~umask)
        if not folder.is_dir() or not any(folder.iterdir()):
            stage.replace(folder)  # an empty folder may be replaced
            return
        for name in texts:
            make_folder((folder / name).parent)
            check_output_file(folder / name)
        for name in texts:
            replace_output(stage / name, folder / name)
    except OSError as error:
        raise UserError(
            f"an output folder must be one that can be written; {str(folder)!r} is not: "
            f"{error.strerror}; make room or choose another path"
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
